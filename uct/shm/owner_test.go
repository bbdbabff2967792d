//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// threeWays runs a test over both transports, and over files with names.
func threeWays(t *testing.T, test func(t *testing.T, transport, setting string)) {
	for _, c := range []struct{ name, transport, setting string }{
		{"posix", posixName, ""}, {"posix with names", posixName, "POSIX_USE_PROC_LINK=n"}, {"sysv", sysvName, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			noSegments(t)
			ucttest.NoLeaks(t)
			t.Cleanup(func() { reclaim(defaultDir) }) // files of peers that were killed
			test(t, c.transport, c.setting)
		})
	}
}

func settingsList(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func fixtureWith(t *testing.T, transport, s string) *ucttest.Fixture {
	f := &ucttest.Fixture{Component: component{transport}}
	if name, value, ok := strings.Cut(s, "="); ok {
		f.Config = setting(t, map[string]string{name: value})
	}
	return f
}

// TestKeyOfAnother: a peer sends the key of memory of a third process. Unpacking it fails; the key
// of the peer's own memory works.
func TestKeyOfAnother(t *testing.T) {
	threeWays(t, func(t *testing.T, transport, s string) {
		h := fixtureWith(t, transport, s).Open(t)
		peer, third := startPeer(t, transport, settingsList(s)...), startPeer(t, transport, settingsList(s)...)
		id, err := h.Iface.(uct.ProcessIface).FindProcess(uct.ReachableParams{DeviceAddr: peer.dev, IfaceAddr: peer.addr}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if pid := host.OfID(id).PID; pid != peer.cmd.Process.Pid {
			t.Fatalf("process %d, not %d", pid, peer.cmd.Process.Pid)
		}
		ep := h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: peer.dev, IfaceAddr: peer.addr})
		if ep.(uct.ProcessEndpoint).Process() != id {
			t.Error("the endpoint leads to another process")
		}
		keys := h.Domain.(uct.MappedMemory)
		_, err = keys.UnpackRkeyOf(id, third.key)
		ucttest.WantStatus(t, "key of another process", err, ucs.ErrUnreachable)
		key, err := keys.UnpackRkeyOf(id, peer.key)
		if err != nil {
			t.Fatalf("key of the peer: %v", err)
		}
		if err := ep.(uct.RMA).PutShort([]byte("8 bytes."), peer.mem, key); err != nil {
			t.Error(err)
		}
		if err := h.Domain.ReleaseRkey(key); err != nil {
			t.Error(err)
		}
		// Another process may get the number of one that has ended.
		_, err = keys.UnpackRkeyOf(id+1<<40, peer.key)
		ucttest.WantStatus(t, "key of a process that has ended", err, ucs.ErrUnreachable)
		if n := h.Domain.(*domain).attached.len(); n != 2 { // the ring and its buffers
			t.Errorf("%d segments attached", n)
		}
	})
}

// TestAskBeforeOpening: where a peer's address names its process, nothing is opened before the
// caller has accepted that process. A file with a name is opened only if the caller accepts an
// unknown process.
func TestAskBeforeOpening(t *testing.T) {
	threeWays(t, func(t *testing.T, transport, s string) {
		h := fixtureWith(t, transport, s).Open(t)
		peer := startPeer(t, transport, settingsList(s)...)
		d := h.Domain.(*domain)
		m := &countingMapper{mapper: d.m}
		d.attached.m = m
		var askedFor []uct.Process
		find := func(may func(uct.Process) bool) (uct.Process, error) {
			askedFor, m.opened = nil, 0
			return h.Iface.(uct.ProcessIface).FindProcess(uct.ReachableParams{DeviceAddr: peer.dev, IfaceAddr: peer.addr},
				func(p uct.Process) bool {
					askedFor = append(askedFor, p)
					return may(p)
				})
		}
		p, err := find(func(uct.Process) bool { return true })
		if err != nil || host.OfID(p).PID != peer.cmd.Process.Pid || askedFor[len(askedFor)-1] != p {
			t.Errorf("process %v, %v; asked about %v", host.OfID(p), err, askedFor)
		}
		named := s == ""
		if want := []uct.Process{p}; named && !slices.Equal(askedFor, want) || !named && !slices.Equal(askedFor, []uct.Process{0, p}) {
			t.Errorf("asked about %v", askedFor)
		}
		_, err = find(func(uct.Process) bool { return false })
		ucttest.WantStatus(t, "a process that nobody wants", err, ucs.ErrRejected)
		if m.opened != 0 {
			t.Errorf("opened %d times in vain", m.opened)
		}
		if !named {
			_, err = find(func(p uct.Process) bool { return p == 0 })
			ucttest.WantStatus(t, "the process of a file", err, ucs.ErrRejected)
			if m.opened != 1 {
				t.Errorf("opened %d times", m.opened)
			}
		}
		h.Iface.(*iface).dropCachedRing()
		if n := d.attached.len(); n != 0 {
			t.Errorf("%d segments attached", n)
		}
		d.attached.m = m.mapper
	})
}

// TestRingOfAnother checks that a ring in a file with a name is refused if it names a process that
// has not mapped the file.
func TestRingOfAnother(t *testing.T) {
	ucttest.NoLeaks(t)
	third := startPeer(t, posixName)
	a, b := fixtureWith(t, posixName, "POSIX_USE_PROC_LINK=n").Pair(t)
	ring := b.Iface.(*iface).rx.seg.mem
	own := binary.LittleEndian.Uint32(ring[pidOffset:])
	binary.LittleEndian.PutUint32(ring[pidOffset:], uint32(third.cmd.Process.Pid))
	err := a.Iface.Reachable(uct.ReachableParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()})
	ucttest.WantStatus(t, "ring of another process", err, ucs.ErrUnreachable)
	if err == nil || !contains(err.Error(), "has not mapped this file") {
		t.Errorf("got %v", err)
	}
	binary.LittleEndian.PutUint32(ring[pidOffset:], own)
	a.Connect(t, b)
}

// TestBuffersOfAnother: the descriptors in a ring name memory of a third process. Senders write
// nothing there.
func TestBuffersOfAnother(t *testing.T) {
	threeWays(t, func(t *testing.T, transport, s string) {
		a, b := fixtureWith(t, transport, s).Pair(t)
		early := a.Connect(t, b)
		third := startPeer(t, transport, settingsList(s)...)
		k, err := b.Domain.(*domain).m.parseKey(third.key)
		if err != nil {
			t.Fatal(err)
		}
		r := &b.Iface.(*iface).rx
		for n := range r.n {
			(&descriptor{seg: k.ref.id, size: 1 << 20}).put(r.elems[n*r.elem : (n+1)*r.elem])
		}
		p := &ucttest.Packer{Data: []byte("message")}
		if _, err := early.AMBcopy(1, p, 0, nil); err == nil || err == ucs.ErrNoResource || p.Calls != 0 {
			t.Errorf("sending there: %v, packed %d times", err, p.Calls)
		}
		ucttest.Until(t, "the failure", func() bool { return a.Failed(early) != nil }, a)
		_, err = a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()})
		ucttest.WantStatus(t, "endpoint", err, ucs.ErrUnreachable)
	})
}

// TestFileWithoutRight checks that a key is refused if it names a descriptor that its process may
// not write, such as one opened for reading.
func TestFileWithoutRight(t *testing.T) {
	ucttest.NoLeaks(t)
	h := (&ucttest.Fixture{Component: component{posixName}}).Open(t)
	path := fmt.Sprintf("%s/ucx_owner_test_%d", defaultDir, os.Getpid())
	if err := os.WriteFile(path, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	for _, c := range []struct {
		name  string
		flags int
		ok    bool
	}{{"path", unix.O_PATH, false}, {"read", unix.O_RDONLY, false}, {"write", unix.O_WRONLY, false}, {"both", unix.O_RDWR, true}} {
		fd, err := unix.Open(path, c.flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		packed := appendPosixKey(nil, procID(os.Getpid(), fd, host.Namespace{}), 1<<40, uint64(pageSize), nil)
		key, err := h.Domain.UnpackRkey(packed)
		if err == nil {
			err = h.Domain.ReleaseRkey(key)
		}
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("%s: %v", c.name, err)
		}
		unix.Close(fd)
	}
}

// TestGrowFactor: each chunk of buffers is larger than the one before by the factor of the
// setting.
func TestGrowFactor(t *testing.T) {
	f := fixtureWith(t, posixName, "POSIX_RX_GROW_FACTOR=2")
	f.Config.Modify("POSIX_RX_BUFS_GROW", "3")
	f.Config.Modify("POSIX_FIFO_SIZE", "2")
	p := &f.Open(t).Iface.(*iface).pool
	var sizes []int
	for range 3 {
		before := len(p.all)
		if err := p.grow(1); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(p.all)-before)
	}
	// The buffers of the ring's elements are the first chunk.
	if want := []int{6, 12, 24}; !slices.Equal(sizes, want) {
		t.Errorf("chunks of %v, want %v", sizes, want)
	}
}

// TestEarlyBuffers: an endpoint is refused when it is made if the peer's receive buffers cannot be
// attached, so that ucp chooses another transport.
func TestEarlyBuffers(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		d := a.Domain.(*domain)
		ep := a.Connect(t, b).(*endpoint)
		if len(ep.segs) != 1 || d.attached.len() != 2 {
			t.Errorf("%d segments of buffers, %d in all", len(ep.segs), d.attached.len())
		}
		ep.Close()
		d.attached.m = &fullMapper{mapper: d.m, left: 1} // the ring
		_, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()})
		ucttest.WantStatus(t, "endpoint", err, ucs.ErrUnreachable)
		if err == nil || !errors.Is(err, unix.EMFILE) || d.attached.len() != 0 {
			t.Errorf("%v; %d segments attached", err, d.attached.len())
		}
		d.attached.m = d.m
		talks(t, a, b)

		// Of many segments only the first ones are attached in advance.
		r := &b.Iface.(*iface).rx
		p := &b.Iface.(*iface).pool
		for n := range r.n {
			if len(p.chunks) <= 2*maxEarly {
				if err := p.grow(1); err != nil {
					t.Fatal(err)
				}
			}
			chunk := p.chunks[n%len(p.chunks)]
			(&descriptor{seg: chunk.id, size: uint32(chunk.size)}).put(r.elems[n*r.elem : (n+1)*r.elem])
		}
		ep = a.Connect(t, b).(*endpoint)
		if len(ep.segs) != maxEarly {
			t.Errorf("%d segments of buffers are attached, want %d", len(ep.segs), maxEarly)
		}
	})
}

// fullMapper opens a number of segments and then fails as if no descriptor were left.
type fullMapper struct {
	mapper
	left int
}

func (m *fullMapper) open(ref reference, pid int) (object, error) {
	if m.left--; m.left < 0 {
		return object{}, errOpen("it", unix.EMFILE)
	}
	return m.mapper.open(ref, pid)
}

// TestOwnerByUser: where the mappings of a process cannot be read, a file with a name is taken for
// that of any process of its user.
func TestOwnerByUser(t *testing.T) {
	ref, fs := reference{id: idOurs | 5, dir: "/somewhere"}, unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC}
	st := unix.Stat_t{Uid: uint32(os.Geteuid())}
	if err := checkOwner(ref, os.Getpid(), -1, &st, &fs); err != nil {
		t.Error(err)
	}
	st.Uid++
	ucttest.WantStatus(t, "file of another user", checkOwner(ref, os.Getpid(), -1, &st, &fs), ucs.ErrUnreachable)
	ucttest.WantStatus(t, "file of no process", checkOwner(ref, host.MaxPID, -1, &st, &fs), ucs.ErrUnreachable)
	if err := checkOwner(ref, 0, -1, &st, &fs); err != nil {
		t.Errorf("of whom it is is not known: %v", err)
	}
}

// TestSwappedFile checks that a file is refused if its owner has replaced it since its descriptor
// was examined.
func TestSwappedFile(t *testing.T) {
	fd, err := unix.MemfdCreate("swapped", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	fs := unix.Statfs_t{Type: unix.TMPFS_MAGIC}
	shown, err := host.FileOf(os.Getpid(), fd)
	if err != nil {
		t.Fatal(err)
	}
	if !sameFile(shown, fd, &st, &fs) {
		t.Errorf("%+v is not inode %d", shown, st.Ino)
	}
	if shown.Inode == 0 || shown.Mount == 0 {
		t.Skip("missing: a kernel that shows inodes and mounts of descriptors, 5.14")
	}
	for _, other := range []host.OpenFile{
		{Flags: shown.Flags, Inode: shown.Inode + 1, Mount: shown.Mount},
		{Flags: shown.Flags, Inode: shown.Inode, Mount: shown.Mount + 1},
	} {
		if sameFile(other, fd, &st, &fs) {
			t.Errorf("%+v is taken for %+v", other, shown)
		}
	}
}
