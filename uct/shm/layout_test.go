//go:build linux

package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestRingLen checks lengths of segments that C UCX of both releases made: files of posix, and
// System V segments, which are rounded to pages.
func TestRingLen(t *testing.T) {
	for _, c := range []struct{ size, elem, want int }{
		{8447, 128, 64}, {33023, 128, 256}, // posix
		{12288, 128, 64}, {36864, 128, 256}, // sysv
		{ringSize(2, 128), 128, 2}, {ringSize(2, 128) - 1, 128, 0},
		{ringSize(4, 64), 64, 4},
		{0, 128, 0}, {191, 128, 0}, {min(1<<46, math.MaxInt), 128, 0},
		{ringSize(maxRing, 64), 64, maxRing},
	} {
		n, err := ringLen(c.size, c.elem)
		if n != c.want || (err == nil) != (c.want > 0) || err != nil && !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("ringLen(%d, %d) = %d, %v; want %d", c.size, c.elem, n, err, c.want)
		}
	}
	if n := ringSize(64, 128); n != 8447 {
		t.Errorf("ring of 64 elements has %d bytes", n)
	}
}

// TestGoldenRing lets two interfaces exchange messages and compares the ring with
// what C UCX leaves in the same situation (bytes seen in its processes of both
// releases, with a ring of 64).
func TestGoldenRing(t *testing.T) {
	f := ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{"POSIX_FIFO_SIZE": "64"})}
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	i := b.Iface.(*iface)
	ring := i.rx.seg.mem
	n := 0
	count := func(*uct.Source, []byte, *uct.AMDesc) error { n++; return nil }
	b.Handle(t, 5, count)
	b.Handle(t, 6, count)
	ucttest.Until(t, "being armed", func() bool { return b.Iface.(uct.Progressor).Arm(uct.EventAny) == nil }, a, b)
	equal := func(what string, got []byte, want string) {
		t.Helper()
		if !bytes.Equal(got, ucttest.Unhex(t, want)) {
			t.Errorf("%s: % x, want %s", what, got, want)
		}
	}
	equal("armed head", ring[:8], "00 00 00 00 00 00 00 80")
	equal("length of the wakeup address", ring[8:12], "08 00 00 00")
	equal("family and zero byte", ring[12:15], "01 00 00")
	equal("untouched element", ring[elemsOffset:elemsOffset+4], "01 00 00 00")
	descs := bytes.Clone(ring[elemsOffset+elemDesc : elemsOffset+elemPayload])
	if err := ep.AMShort(5, 0x1122334455667788, bytes.Repeat([]byte{0xaa}, 10), 0, nil); err != nil {
		t.Fatal(err)
	}
	equal("head after a message", ring[:8], "01 00 00 00 00 00 00 00")
	e := ring[elemsOffset:]
	equal("short message", e[:4], "02 05 12 00")
	if !bytes.Equal(e[elemDesc:elemPayload], descs) {
		t.Error("the sender has changed the descriptor")
	}
	equal("payload", e[elemPayload:elemPayload+18], "88 77 66 55 44 33 22 11 aa aa aa aa aa aa aa aa aa aa")
	if _, err := ep.AMBcopy(6, &ucttest.Packer{Data: make([]byte, 100)}, 0, nil); err != nil {
		t.Fatal(err)
	}
	equal("buffered message", e[128:132], "00 06 64 00")
	ucttest.Until(t, "both", func() bool { return n == 2 }, b)
	for n < 64 {
		ucttest.Accept(t, func() error { return ep.AMShort(5, 0, nil, 0, nil) }, a)
		ucttest.Progress(b)
	}
	ucttest.Accept(t, func() error { return ep.AMShort(5, 0, make([]byte, 10), 0, nil) }, a)
	equal("second lap", e[:4], "03 05 12 00")
	equal("tail", ring[tailOffset:tailOffset+8], "40 00 00 00 00 00 00 00")
	if pid := binary.LittleEndian.Uint32(ring[pidOffset:]); int(pid) != i.domain.m.owner(i.rx.seg.id) {
		t.Errorf("owner %d", pid)
	}
}

// TestGoldenAddresses checks addresses and keys that C UCX of both releases published, taken from
// worker addresses and packed keys.
func TestGoldenAddresses(t *testing.T) {
	p, s := &posix{link: true, dir: defaultDir, pid: 0x1edb}, new(sysv)
	ref, err := p.parseAddress(ucttest.Unhex(t, "db 1e 00 c0 00 00 00 c0"))
	if pid, fd := procOf(ref.id); err != nil || pid != 7899 || fd != 3 {
		t.Errorf("posix: process %d, descriptor %d, %v", pid, fd, err)
	}
	if id := procID(7899, 3, host.Namespace{}); id != ref.id {
		t.Errorf("packed again: %#x, want %#x", id, ref.id)
	}
	packed := ucttest.Unhex(t, "db1e0080010000c0 00303cb9187f0000 0000010000000000")
	k, err := p.parseKey(packed)
	if err != nil || k.base != 0x7f18b93c3000 || k.length != 64<<10 || p.owner(k.ref.id) != 7899 {
		t.Errorf("posix key: %+v, %v", k, err)
	}
	if again := appendPosixKey(nil, k.ref.id, k.base, k.length, nil); !bytes.Equal(again, packed) {
		t.Errorf("packed again: % x", again)
	}
	// 1.13.1, 8192 bytes allocated by UCP.
	k, err = p.parseKey(ucttest.Unhex(t, "106d0000030000c000005fa8437f0000002000000000 0000"))
	if err != nil || k.base != 0x7f43a85f0000 || k.length != 8192 {
		t.Errorf("posix key of 1.13.1: %+v, %v", k, err)
	}
	ref, err = s.parseAddress(ucttest.Unhex(t, "15004c0000000000"))
	if err != nil || ref.id != 0x4c0015 || s.reachable(ref) != nil {
		t.Errorf("sysv: %+v, %v", ref, err)
	}
	k, err = s.parseKey(ucttest.Unhex(t, "17004c0000703cd90d7f0000"))
	if err != nil || k.ref.id != 0x4c0017 || k.base != 0x7f0dd93c7000 || k.length != 0 {
		t.Errorf("sysv key: %+v, %v", k, err)
	}
	// Another PID namespace: 1.22 and 1.13 send different forms; this library sends that of 1.13.
	id := procID(7, 3, host.Namespace{Other: true, Inode: 0xf0000123})
	head := binary.LittleEndian.AppendUint64(nil, id)
	for _, ns := range []string{"23 01 00 f0", "23 01 00 f0 00 00 00 00"} {
		a, err := parsePosixAddr(append(bytes.Clone(head), ucttest.Unhex(t, ns)...))
		if err != nil || !a.ns.Other || a.ns.Inode != 0xf0000123 {
			t.Errorf("namespace %s: %+v, %v", ns, a, err)
		}
		if _, err := p.parseAddress(append(bytes.Clone(head), ucttest.Unhex(t, ns)...)); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("a process of another namespace: %v", err)
		}
	}
	q := &posix{link: true, dir: defaultDir, ns: host.Namespace{Other: true, Inode: 0xf0000123}}
	if b := q.appendAddress(nil, id); !bytes.Equal(b[8:], ucttest.Unhex(t, "23 01 00 f0 00 00 00 00")) || q.keyLen() != 32 {
		t.Errorf("address in a namespace % x, keys of %d bytes", b, q.keyLen())
	}
	if _, err := q.parseAddress(q.appendAddress(nil, id)); err != nil {
		t.Errorf("a process of the same namespace: %v", err)
	}
	// A file in another directory.
	named := &posix{dir: "/tmp/x"}
	b := named.appendAddress(nil, 5)
	if !bytes.Equal(b, append(ucttest.Unhex(t, "05 00 00 00 00 00 00 00"), "/tmp/x\x00"...)) {
		t.Errorf("address of a file % x", b)
	}
	if ref, err := p.parseAddress(b); err != nil || ref.dir != "/tmp/x" || fileName(ref.id) != "ucx_shm_posix_5" {
		t.Errorf("file: %+v, %v", ref, err)
	}
	for _, bad := range []string{
		"", "db 1e 00 c0 00 00 00", "db 1e 00 c0 00 00 00 c0 00", // truncated, extended
		"05 00 00 00 00 00 00 00", "05 00 00 00 00 00 00 00 2f", // no end of the directory
		"05 00 00 00 00 00 00 00 61 00", "05 00 00 00 00 00 00 00 2f 2e 2e 00", // "a", "/.."
		"05 00 00 00 00 00 00 40 2f 00", // a name in /dev/shm with a directory
	} {
		if ref, err := p.parseAddress(ucttest.Unhex(t, bad)); !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("parseAddress(%s) = %+v, %v", bad, ref, err)
		}
	}
	for _, bad := range []string{
		"", "db1e0080010000c0 00303cb9187f0000 00000100000000",
		"db1e0080010000c0 00303cb9187f0000 0000000000000000", // length 0
		"db1e0080010000c0 00f0ffffffffffff 0000010000000000", // past the end of memory
		"db1e008001000000 00303cb9187f0000 0000010000000000", // no directory
	} {
		if k, err := p.parseKey(ucttest.Unhex(t, bad)); !errors.Is(err, ucs.ErrInvalidParam) && !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("parseKey(%s) = %+v, %v", bad, k, err)
		}
	}
	huge := reference{id: ref.id | idHugeTLB | idProcFS | 7}
	if err := p.reachable(huge); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("huge pages: %v", err)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add(ucttest.Unhex(f, "db 1e 00 c0 00 00 00 c0"))
	f.Add(append(ucttest.Unhex(f, "05 00 00 00 00 00 00 00"), "/tmp/x\x00"...))
	f.Add(ucttest.Unhex(f, "15004c0000000000"))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		for _, m := range []mapper{&posix{link: true, dir: defaultDir}, &posix{dir: "/tmp"}, new(sysv)} {
			ref, err := m.parseAddress(b)
			if err != nil {
				if !errors.Is(err, ucs.ErrUnreachable) {
					t.Fatalf("error %v is no %v", err, ucs.ErrUnreachable)
				}
				continue
			}
			if _, ok := m.(*posix); ok { // in the mode of the address
				m = &posix{link: ref.id&idProcFS != 0, dir: defaultDir}
				if ref.dir != "" {
					m = &posix{dir: ref.dir}
				}
			}
			if again := m.appendAddress(nil, ref.id); !bytes.Equal(again, b) {
				t.Fatalf("% x packs to % x", b, again)
			}
			m.reachable(ref)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add(ucttest.Unhex(f, "db1e0080010000c0 00303cb9187f0000 0000010000000000"))
	f.Add(ucttest.Unhex(f, "17004c0000703cd90d7f0000"))
	d := openDomain(component{posixName}, &posix{link: true, dir: defaultDir})
	s := openDomain(component{sysvName}, new(sysv))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		for _, m := range []mapper{d.m, s.m} {
			k, err := m.parseKey(b)
			if err == nil && k.base+k.length < k.base {
				t.Fatalf("a key around the end of memory: %+v", k)
			}
		}
		// Attaching the memory that the bytes name must be as safe as refusing it.
		for _, d := range []*domain{d, s} {
			if key, err := d.UnpackRkey(b); err == nil {
				d.ReleaseRkey(key)
			}
		}
	})
}

// TestCountElements counts the elements of rings whose descriptors are in the
// segment with the id 0: the first one of a System V IPC namespace.
func TestCountElements(t *testing.T) {
	i := &iface{o: options{elem: minElemSize + 64, seg: 8256}, domain: &domain{m: &sysv{}}}
	for _, n := range []int{0, 1, 64, 100, 256} {
		elems := make([]byte, 300*i.o.elem)
		for k := range n {
			d := descriptor{size: 1 << 20, offset: uint32(k * 8300 % 1000)}
			d.put(elems[k*i.o.elem:])
		}
		want := 0
		for p := 1; p <= n; p *= 2 {
			want = p
		}
		wantBad := min(n, firstElements)
		if got, bad := i.countElements(elems, 256, 0); got != want || bad != wantBad {
			t.Errorf("%d descriptors: %d elements, the first without one is %d; want %d and %d", n, got, bad, want, wantBad)
		}
	}
}

// TestLongRing: not every element of a ring of the greatest length is examined.
func TestLongRing(t *testing.T) {
	m := &countingMapper{mapper: &sysv{}}
	i := &iface{o: options{elem: minElemSize, seg: minSegSize}, domain: &domain{m: m}}
	elems := make([]byte, maxRing*i.o.elem)
	for k := range maxRing {
		(&descriptor{size: 1 << 20}).put(elems[k*i.o.elem:])
	}
	if n, _ := i.countElements(elems, maxRing, 0); n != maxRing || m.owners > 100 {
		t.Errorf("%d elements, %d were looked at", n, m.owners)
	}
}

// countingMapper counts the costly calls.
type countingMapper struct {
	mapper
	opened, owners int
}

func (m *countingMapper) open(ref reference, pid int) (object, error) {
	m.opened++
	return m.mapper.open(ref, pid)
}

func (m *countingMapper) owner(id uint64) int {
	m.owners++
	return m.mapper.owner(id)
}
