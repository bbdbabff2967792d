package ucp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// file is memory that a peer shares over posix. The peer may lie about it.
type file struct {
	testing.TB
	fd   int
	size int
}

func newFile(t testing.TB, size int) *file {
	t.Helper()
	fd, err := unix.MemfdCreate("ucp-test", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, int64(size))
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &file{TB: t, fd: fd, size: size}
	t.Cleanup(f.close)
	return f
}

func (f *file) close() {
	if f.fd >= 0 {
		unix.Close(f.fd)
		f.fd = -1
	}
}

func (f *file) shrink(size int) {
	f.Helper()
	if err := unix.Ftruncate(f.fd, int64(size)); err != nil {
		f.Fatal(err)
	}
}

func (f *file) write(b []byte) {
	f.Helper()
	if _, err := unix.Pwrite(f.fd, b, 0); err != nil {
		f.Fatal(err)
	}
}

// fileBase is the address of the files in the memory of the peer, which does not exist.
const fileBase = 0x7000_0000_0000

// posixKey returns a packed key of the transport posix (uct_posix_packed_rkey_t).
func posixKey(pid, fd int, base, length uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, 1<<63|1<<62|uint64(fd)<<30|uint64(pid))
	b = binary.LittleEndian.AppendUint64(b, base)
	return binary.LittleEndian.AppendUint64(b, length)
}

func (f *file) key() []byte { return posixKey(os.Getpid(), f.fd, fileBase, uint64(f.size)) }

// packed returns a packed remote key that contains the key blob of memory domain md.
func packed(t testing.TB, md uint8, blob []byte) []byte {
	t.Helper()
	k := proto.NewRkey(ucs.MemoryHost.Wire())
	if err := k.Add(md, blob); err != nil {
		t.Fatal(err)
	}
	return k.Append(nil)
}

// offered returns a receive of n bytes, for which data at addr was offered with a key, and its
// buffer.
func (v *targetWorker) offered(n int, addr uint64, key []byte) (*Request, []byte) {
	v.Helper()
	buf := make([]byte, n)
	req, err := v.TagRecv(0xF0, FullMask, buf, nil)
	if err != nil {
		v.Fatal(err)
	}
	rts := proto.RndvRTS{Header: 0xF0, EpID: v.ep.localID, ReqID: 0x1234567, Size: n, Address: addr}
	if err := v.rndv.onRndvRTS(nil, append(rts.Append(nil), key...), nil); err != nil {
		v.Fatal(err)
	}
	return req, buf
}

// until progresses until the request is done, but not forever.
func (v *targetWorker) until(req *Request) {
	v.Helper()
	for range 10_000 {
		if req.Done() {
			return
		}
		v.Progress()
	}
	v.Fatal("the receive does not end")
}

func newMappedTarget(t testing.TB) *targetWorker {
	t.Helper()
	ucttest.NoLeaks(t)
	v := newTarget(t, "TLS", "posix")
	if len(v.ep.cfg.maps) != 1 || v.ep.cfg.maps[0].peerMD != 0 {
		t.Fatalf("%+v", v.ep.cfg.maps)
	}
	return v
}

// TestHostileKeys: if a key does not open all memory that is offered, the receiver
// requests the data from the sender instead. No byte is read with such a key.
func TestHostileKeys(t *testing.T) {
	const n = 100_000
	v := newMappedTarget(t)
	f := newFile(t, 1<<20)
	pid := os.Getpid()
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	devices, err := unix.Open("/dev/zero", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(devices)
	good := f.key()
	other := packed(t, 0, good)
	other[8] = 77 // a memory type
	for what, c := range map[string]struct {
		addr uint64
		key  []byte
	}{
		"no key":                        {fileBase, nil},
		"no domain":                     {fileBase, proto.AppendRkeyHeader(nil, ucs.MemoryHost.Wire())},
		"another domain":                {fileBase, packed(t, 1, good)},
		"the last domain":               {fileBase, packed(t, 63, good)},
		"other memory":                  {fileBase, other},
		"empty":                         {fileBase, packed(t, 0, nil)},
		"short":                         {fileBase, packed(t, 0, good[:23])},
		"garbage":                       {fileBase, packed(t, 0, bytes.Repeat([]byte{0xEE}, 255))},
		"zeroes":                        {fileBase, packed(t, 0, make([]byte, 24))},
		"a process that is not there":   {fileBase, packed(t, 0, posixKey(1<<29, f.fd, fileBase, 1<<20))},
		"a descriptor that is not open": {fileBase, packed(t, 0, posixKey(pid, 1<<20, fileBase, 1<<20))},
		"a pipe":                        {fileBase, packed(t, 0, posixKey(pid, pipe[0], fileBase, 1<<20))},
		"a device":                      {fileBase, packed(t, 0, posixKey(pid, devices, fileBase, 1<<20))},
		"longer than the file":          {fileBase, packed(t, 0, posixKey(pid, f.fd, fileBase, 1<<20+4096))},
		"as long as can be":             {fileBase, packed(t, 0, posixKey(pid, f.fd, fileBase, math.MaxUint64))},
		"no length":                     {fileBase, packed(t, 0, posixKey(pid, f.fd, fileBase, 0))},
		"a base inside a page":          {fileBase, packed(t, 0, posixKey(pid, f.fd, fileBase+8, 4096))},
		"a base at the end":             {fileBase, packed(t, 0, posixKey(pid, f.fd, -(1<<20)&math.MaxUint64, 1<<20+4096))},
		"before it":                     {fileBase - 1, packed(t, 0, good)},
		"across its end":                {fileBase + 1<<20 - n + 1, packed(t, 0, good)},
		"behind it":                     {fileBase + 1<<20, packed(t, 0, good)},
		"far away":                      {math.MaxUint64 - 10, packed(t, 0, good)},
	} {
		req, buf := v.offered(n, c.addr, c.key)
		if req.Done() || !req.is(kindAsk) || req.fetch.attached != nil || v.stats.RndvPtr != 0 {
			t.Errorf("%s: the receive does not ask for the data: done %v, %v", what, req.Done(), req.Err())
		}
		if !bytes.Equal(buf, make([]byte, n)) {
			t.Errorf("%s: bytes were read", what)
		}
		req.finish(ucs.ErrCanceled)
		req.Free()
	}
	for _, a := range v.rndv.mappedKeys {
		if a.use != 0 {
			t.Errorf("an attachment is used %d times", a.use)
		}
	}
	v.exchange()

	want := ucttest.Pattern(n, 3)
	f.write(want)
	req, buf := v.offered(n, fileBase, packed(t, 0, good))
	v.until(req)
	if req.Err() != nil || v.stats.RndvPtr != 1 {
		t.Errorf("the good key: %v", req.Err())
	}
	ucttest.SameBytes(t, "message", buf, want)
	req.Free()
}

// TestHostileUnexpectedKey: the key of an offer is kept until its receive is posted.
// A longer key than the limit is not kept, and the receiver requests the data.
func TestHostileUnexpectedKey(t *testing.T) {
	v := newMappedTarget(t)
	f := newFile(t, 1<<20)
	want := ucttest.Pattern(1<<20, 4)
	f.write(want)
	long := append(packed(t, 0, f.key()), bytes.Repeat([]byte{0x10}, 4000)...) // too many device distances
	for _, key := range [][]byte{packed(t, 0, f.key()), long} {
		before := v.accounts.Held()
		rts := proto.RndvRTS{Header: 0xF0, EpID: v.ep.localID, ReqID: 0x1234567, Size: 1 << 20, Address: fileBase}
		if err := v.rndv.onRndvRTS(nil, append(rts.Append(nil), key...), nil); err != nil {
			t.Fatal(err)
		}
		if held := v.accounts.Held() - before; held > messageSize+2*maxOfferKey {
			t.Errorf("%d bytes are kept of a key of %d", held, len(key))
		}
		buf := make([]byte, 1<<20)
		req, err := v.TagRecv(0xF0, FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(key) > maxOfferKey {
			if req.Done() || !req.is(kindAsk) {
				t.Errorf("the receive does not ask for the data")
			}
			req.finish(ucs.ErrCanceled)
		} else {
			v.until(req)
			ucttest.SameBytes(t, "message", buf, want)
		}
		req.Free()
		if v.accounts.Held() != before {
			t.Errorf("%d bytes held, %d before", v.accounts.Held(), before)
		}
	}
}

// TestHostileShrink: if a sender truncates its memory, before the first piece is
// copied or between two pieces, only this receive fails.
func TestHostileShrink(t *testing.T) {
	for what, pieces := range map[string]int{"at once": 0, "after a piece": 1, "before the last": 3} {
		t.Run(what, func(t *testing.T) {
			v := newMappedTarget(t)
			f := newFile(t, 2<<20)
			want := ucttest.Pattern(2<<20, 6)
			f.write(want)
			key := packed(t, 0, f.key())
			// The file is mapped, and not truncated yet.
			req, buf := v.offered(100_000, fileBase+5, key)
			v.until(req)
			ucttest.SameBytes(t, "message", buf, want[5:][:100_000])
			req.Free()

			req, _ = v.offered(2<<20, fileBase, key)
			for range pieces {
				v.Progress()
			}
			if req.Done() {
				t.Fatalf("the receive is over: %v", req.Err())
			}
			f.shrink(pieces * (512 << 10) / 2)
			v.until(req)
			if !errors.Is(req.Err(), ucs.ErrConnectionReset) {
				t.Errorf("the receive ended with %v", req.Err())
			}
			req.Free()

			// The same truncated file is still mapped. Short messages fail as well.
			req, _ = v.offered(70_000, fileBase+1<<20, key)
			v.until(req)
			if !errors.Is(req.Err(), ucs.ErrConnectionReset) {
				t.Errorf("a message of one piece ended with %v", req.Err())
			}
			req.Free()
			v.exchange()
		})
	}
}

// TestMappedFailure: the failure of an endpoint ends the receives that copy from
// mapped memory, and the memory is unmapped with the endpoint.
func TestMappedFailure(t *testing.T) {
	v := newMappedTarget(t)
	f := newFile(t, 2<<20)
	key := packed(t, 0, f.key())
	var reqs []*Request
	for range 3 {
		req, _ := v.offered(2<<20, fileBase, key)
		reqs = append(reqs, req)
	}
	v.Progress()
	if a := v.rndv.mappedKeys[0]; len(v.rndv.mappedKeys) != 1 || a.use != 3 {
		t.Fatalf("%d attachments, used %d times", len(v.rndv.mappedKeys), a.use)
	}
	a := v.rndv.mappedKeys[0]
	v.ep.fail(ucs.ErrConnectionReset)
	for _, req := range reqs {
		if !errors.Is(req.Err(), ucs.ErrConnectionReset) {
			t.Errorf("a receive ended with %v", req.Err())
		}
		req.Free()
	}
	if a.use != 0 || !v.copying.Empty() {
		t.Errorf("the memory is used %d times", a.use)
	}
	v.ep.w.ends.destroy(v.ep, ucs.ErrCanceled)
	if a.key != nil {
		t.Error("the memory is still attached")
	}
}

// TestHostileClosed: a mapping is not used again if the peer has closed the file
// descriptor in the key, or the descriptor now names another file.
func TestHostileClosed(t *testing.T) {
	v := newMappedTarget(t)
	f := newFile(t, 1<<20)
	f.write(bytes.Repeat([]byte{1}, 1<<20))
	key := packed(t, 0, f.key())
	read := func() []byte {
		t.Helper()
		req, buf := v.offered(1<<20, fileBase, key)
		v.until(req)
		if req.Err() != nil {
			t.Fatal(req.Err())
		}
		req.Free()
		return buf
	}
	if got := read(); got[0] != 1 {
		t.Errorf("%d", got[0])
	}
	fd := f.fd
	f.close()
	req, _ := v.offered(1<<20, fileBase, key)
	if req.Done() || !req.is(kindAsk) || len(v.rndv.mappedKeys) != 0 {
		t.Errorf("memory that is gone: done %v, %d attachments", req.Done(), len(v.rndv.mappedKeys))
	}
	req.finish(ucs.ErrCanceled)
	req.Free()
	second := newFile(t, 1<<20)
	if second.fd != fd {
		t.Skipf("the number %d was not given out again, but %d", fd, second.fd)
	}
	second.write(bytes.Repeat([]byte{2}, 1<<20))
	if got := read(); got[0] != 2 {
		t.Errorf("%d: the memory of the first file", got[0])
	}
	// While a message is copied out of the second file, its descriptor may become the third's.
	req, buf := v.offered(1<<20, fileBase, key)
	v.Progress()
	second.close()
	third := newFile(t, 1<<20)
	third.write(bytes.Repeat([]byte{3}, 1<<20))
	next, other := v.offered(1<<20, fileBase, key)
	v.until(req)
	v.until(next)
	if want := bytes.Repeat([]byte{2}, 1<<20); !bytes.Equal(buf, want) || req.Err() != nil {
		t.Errorf("%d, %v", buf[1<<20-1], req.Err())
	}
	if want := bytes.Repeat([]byte{3}, 1<<20); third.fd == fd && (!bytes.Equal(other, want) || next.Err() != nil) {
		t.Errorf("%d, %v", other[1<<20-1], next.Err())
	}
	req.Free()
	next.Free()
}

// TestHostileAttachments: the number of mappings is bounded if a peer offers ever
// more memory.
func TestHostileAttachments(t *testing.T) {
	v := newMappedTarget(t)
	for i := range 3 * minMappedKeys {
		f := newFile(t, 1<<17)
		f.write([]byte{byte(i)})
		req, buf := v.offered(1<<17, fileBase, packed(t, 0, f.key()))
		v.until(req)
		if req.Err() != nil || buf[0] != byte(i) {
			t.Fatalf("%d: %v, %d", i, req.Err(), buf[0])
		}
		req.Free()
		if len(v.rndv.mappedKeys) > minMappedKeys {
			t.Fatalf("%d attachments", len(v.rndv.mappedKeys))
		}
	}
	v.ep.w.ends.destroy(v.ep, ucs.ErrCanceled)
	if len(v.rndv.mappedKeys) != 0 {
		t.Errorf("%d attachments of an endpoint that is closed", len(v.rndv.mappedKeys))
	}
}

// TestAbandonedAttachments: memory that its owner has freed does not stay mapped for long.
func TestAbandonedAttachments(t *testing.T) {
	for _, tls := range []string{"posix", "sysv"} {
		t.Run(tls, func(t *testing.T) {
			ucttest.NoLeaks(t)
			v := newTarget(t, "TLS", tls)
			const n = 1 << 17
			for i := range 50 {
				m, err := v.ctx.MemMap(MemMapParams{Length: n, Flags: MemMapAllocate})
				if err != nil {
					t.Fatal(err)
				}
				m.Bytes()[n-1] = byte(i)
				buf := make([]byte, n)
				req, err := v.TagRecv(1, FullMask, buf, nil)
				if err != nil {
					t.Fatal(err)
				}
				send, err := v.ep.TagSend(1, m.Bytes()[:n], nil)
				if err != nil {
					t.Fatal(err)
				}
				v.until(req)
				v.until(send)
				if err := m.Close(); err != nil || req.Err() != nil || buf[n-1] != byte(i) {
					t.Fatal(err, req.Err(), buf[n-1])
				}
				req.Free()
				send.Free()
				if len(v.rndv.mappedKeys) > 2 {
					t.Fatalf("%d attachments", len(v.rndv.mappedKeys))
				}
			}
			if v.stats.RndvPtr != 50 {
				t.Errorf("%d messages copied out of mapped memory", v.stats.RndvPtr)
			}
		})
	}
}
