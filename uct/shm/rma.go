//go:build linux

package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// remote returns the local mapping of the n bytes at the peer's address raddr, and their segment,
// if the endpoint accepts the operation and the key opens all of these bytes.
func (e *endpoint) remote(key *uct.Rkey, raddr uint64, n int) (*attachment, []byte, error) {
	if e.refusing || e.pending.Blocks() {
		return nil, nil, e.ready()
	}
	if e.exit.ops--; e.exit.ops <= 0 && e.lost() {
		return nil, nil, e.refusal()
	}
	if key == nil {
		return nil, nil, errKey()
	}
	k, ok := key.Handle.(*remoteKey)
	if !ok || k.released.Load() {
		return nil, nil, errKey()
	}
	b, ok := k.bytes(raddr, n)
	if !ok {
		return nil, nil, errNoAccess(raddr, n)
	}
	if atomic.LoadUint32(k.open) != lifeOpen || k.seg.shrink && k.revoked() {
		return nil, nil, errRevoked()
	}
	return k.seg, b, nil
}

// plain is the fast path of remote; it returns nil if the caller must use remote instead. If
// the segment can shrink, cut is the segment, and the caller must use a fence. plain serves
// such a segment only if it has no life page, as those of C UCX have none.
func (e *endpoint) plain(key *uct.Rkey, raddr, n uint64) (b []byte, cut *attachment) {
	if e.exit.ops--; e.refusing || e.pending.Blocks() || key == nil || e.exit.ops <= 0 {
		return nil, nil
	}
	k, ok := key.Handle.(*remoteKey)
	if !ok || k.released.Load() || atomic.LoadUint32(k.open) != lifeOpen || k.seg.shrink && k.life != nil {
		return nil, nil
	}
	off := raddr - k.base
	if off > k.length || n > k.length-off {
		return nil, nil
	}
	if k.seg.shrink {
		cut = k.seg
	}
	return k.seg.mem[off : off+n : off+n], cut
}

// PutShort implements uct.Endpoint.
func (e *endpoint) PutShort(buf []byte, raddr uint64, key *uct.Rkey) error {
	if len(buf) > maxPutShort {
		return fmt.Errorf("shm: short put of %d bytes, at most %d: %w", len(buf), maxPutShort, ucs.ErrInvalidParam)
	}
	if dst, cut := e.plain(key, raddr, uint64(len(buf))); dst != nil && cut == nil {
		if len(buf) == 8 { // this copy needs no call
			*(*[8]byte)(dst) = [8]byte(buf)
		} else {
			cpu.Copy(dst, buf)
		}
		raceSent()
		return nil
	}
	a, dst, err := e.remote(key, raddr, len(buf))
	if err != nil {
		return err
	}
	if a.shrink {
		return e.copyFenced(a, dst, buf)
	}
	cpu.Copy(dst, buf)
	raceSent()
	return nil
}

//go:noinline
func (e *endpoint) copyFenced(a *attachment, dst, src []byte) (err error) {
	var f fault.Fence
	f.Begin()
	defer f.End(e, a.mem, &err)
	cpu.Copy(dst, src)
	f.Passed()
	return nil
}

// PutBcopy implements uct.Endpoint. It packs straight into the peer's memory.
func (e *endpoint) PutBcopy(p uct.Packer, length int, raddr uint64, key *uct.Rkey) (n int, err error) {
	a, dst, err := e.remote(key, raddr, length)
	if err != nil {
		return 0, err
	}
	if a.shrink {
		defer fault.End(fault.Begin(), e, a.mem, &err)
	}
	n = p.Pack(dst)
	raceSent()
	return n, nil
}

// GetBcopy implements uct.Endpoint. It unpacks straight from the peer's memory.
func (e *endpoint) GetBcopy(u uct.Unpacker, length int, raddr uint64, key *uct.Rkey, _ *uct.Completion) (err error) {
	if src, cut := e.plain(key, raddr, uint64(length)); src != nil && cut == nil {
		raceReceived()
		u.Unpack(src)
		return nil
	}
	a, src, err := e.remote(key, raddr, length)
	if err != nil {
		return err
	}
	if a.shrink {
		defer fault.End(fault.Begin(), e, a.mem, &err)
	}
	raceReceived()
	u.Unpack(src)
	return nil
}

//go:noinline
func errKey() error {
	return fmt.Errorf("shm: the key is not that of a shared-memory domain, or was released: %w", ucs.ErrInvalidParam)
}
