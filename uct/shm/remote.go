package shm

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// remote returns the n bytes at raddr of the peer, mapped here, if the operation
// may go on and the key opens them.
func (e *endpoint) remote(key *uct.Rkey, raddr uint64, n int) (*attachment, []byte, error) {
	if e.refusing || e.pending.Blocks() {
		return nil, nil, e.ready()
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

// word is remote for the operand of an atomic operation. Keys are those of whole
// pages, so an aligned address there is one here.
func (e *endpoint) word(key *uct.Rkey, raddr uint64, size int) (*attachment, []byte, error) {
	if raddr&uint64(size-1) != 0 {
		return nil, nil, errMisaligned(raddr, size)
	}
	return e.remote(key, raddr, size)
}

// fenceRemote is fence for memory that a key opens.
func (e *endpoint) fenceRemote(old bool, a *attachment, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		*err = e.fault(r, a)
	}
}

// PutShort implements uct.Endpoint.
func (e *endpoint) PutShort(buf []byte, raddr uint64, key *uct.Rkey) error {
	if uint64(len(buf)) > maxPutShort {
		return fmt.Errorf("shm: short put of %d bytes, at most %d: %w", len(buf), maxPutShort, ucs.ErrInvalidParam)
	}
	a, dst, err := e.remote(key, raddr, len(buf))
	if err != nil {
		return err
	}
	if a.shrink {
		return e.copyFenced(a, dst, buf)
	}
	copyMemory(dst, buf)
	raceSent()
	return nil
}

//go:noinline
func (e *endpoint) copyFenced(a *attachment, dst, src []byte) (err error) {
	defer e.fenceRemote(debug.SetPanicOnFault(true), a, &err)
	copyMemory(dst, src)
	return nil
}

// PutBcopy implements uct.Endpoint. It packs straight into the target.
func (e *endpoint) PutBcopy(p uct.Packer, length int, raddr uint64, key *uct.Rkey) (n int, err error) {
	a, dst, err := e.remote(key, raddr, length)
	if err != nil {
		return 0, err
	}
	if a.shrink {
		defer e.fenceRemote(debug.SetPanicOnFault(true), a, &err)
	}
	n = p.Pack(dst)
	raceSent()
	return n, nil
}

// GetBcopy implements uct.Endpoint. It unpacks straight from the source.
func (e *endpoint) GetBcopy(u uct.Unpacker, length int, raddr uint64, key *uct.Rkey, _ *uct.Completion) (err error) {
	a, src, err := e.remote(key, raddr, length)
	if err != nil {
		return err
	}
	if a.shrink {
		defer e.fenceRemote(debug.SetPanicOnFault(true), a, &err)
	}
	raceReceived()
	u.Unpack(src)
	return nil
}

// Atomic32Post implements uct.Endpoint.
func (e *endpoint) Atomic32Post(op uct.AtomicOp, value uint32, raddr uint64, key *uct.Rkey) error {
	if op > uct.AtomicXor {
		return ucs.ErrUnsupported
	}
	_, err := e.fetch32(op, value, raddr, key)
	return err
}

// Atomic64Post implements uct.Endpoint.
func (e *endpoint) Atomic64Post(op uct.AtomicOp, value uint64, raddr uint64, key *uct.Rkey) error {
	if op > uct.AtomicXor {
		return ucs.ErrUnsupported
	}
	_, err := e.fetch64(op, value, raddr, key)
	return err
}

// Atomic32Fetch implements uct.Endpoint.
func (e *endpoint) Atomic32Fetch(op uct.AtomicOp, value uint32, result *uint32, raddr uint64, key *uct.Rkey, _ *uct.Completion) error {
	old, err := e.fetch32(op, value, raddr, key)
	if err == nil {
		*result = old
	}
	return err
}

// Atomic64Fetch implements uct.Endpoint.
func (e *endpoint) Atomic64Fetch(op uct.AtomicOp, value uint64, result *uint64, raddr uint64, key *uct.Rkey, _ *uct.Completion) error {
	old, err := e.fetch64(op, value, raddr, key)
	if err == nil {
		*result = old
	}
	return err
}

func (e *endpoint) fetch32(op uct.AtomicOp, value uint32, raddr uint64, key *uct.Rkey) (old uint32, err error) {
	a, b, err := e.word(key, raddr, 4)
	if err != nil {
		return 0, err
	}
	if a.shrink {
		return e.fetch32Fenced(a, b, op, value)
	}
	return op.Do32(b, value)
}

func (e *endpoint) fetch32Fenced(a *attachment, b []byte, op uct.AtomicOp, value uint32) (old uint32, err error) {
	defer e.fenceRemote(debug.SetPanicOnFault(true), a, &err)
	return op.Do32(b, value)
}

func (e *endpoint) fetch64(op uct.AtomicOp, value uint64, raddr uint64, key *uct.Rkey) (old uint64, err error) {
	a, b, err := e.word(key, raddr, 8)
	if err != nil {
		return 0, err
	}
	if a.shrink {
		return e.fetch64Fenced(a, b, op, value)
	}
	return op.Do64(b, value)
}

func (e *endpoint) fetch64Fenced(a *attachment, b []byte, op uct.AtomicOp, value uint64) (old uint64, err error) {
	defer e.fenceRemote(debug.SetPanicOnFault(true), a, &err)
	return op.Do64(b, value)
}

// AtomicCSwap32 implements uct.Endpoint.
func (e *endpoint) AtomicCSwap32(compare, swap uint32, raddr uint64, key *uct.Rkey, result *uint32, _ *uct.Completion) (err error) {
	a, b, err := e.word(key, raddr, 4)
	if err != nil {
		return err
	}
	if a.shrink {
		defer e.fenceRemote(debug.SetPanicOnFault(true), a, &err)
	}
	*result = word.CompareSwap32(b, compare, swap)
	return nil
}

// AtomicCSwap64 implements uct.Endpoint.
func (e *endpoint) AtomicCSwap64(compare, swap uint64, raddr uint64, key *uct.Rkey, result *uint64, _ *uct.Completion) (err error) {
	a, b, err := e.word(key, raddr, 8)
	if err != nil {
		return err
	}
	if a.shrink {
		defer e.fenceRemote(debug.SetPanicOnFault(true), a, &err)
	}
	*result = word.CompareSwap64(b, compare, swap)
	return nil
}

//go:noinline
func errKey() error {
	return fmt.Errorf("shm: the key is not that of a shared-memory domain, or was released: %w", ucs.ErrInvalidParam)
}

//go:noinline
func errMisaligned(raddr uint64, size int) error {
	return fmt.Errorf("shm: atomic operation on %d bytes at %#x, which is not aligned: %w", size, raddr, ucs.ErrInvalidParam)
}
