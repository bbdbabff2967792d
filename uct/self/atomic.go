package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// word is like remote, for the operand of an atomic operation, which has size bytes. It returns an
// error if addr is not naturally aligned.
func (e *endpoint) word(key *uct.Rkey, addr uint64, size int) ([]byte, error) {
	if addr&uint64(size-1) != 0 {
		return nil, errMisaligned(addr, size)
	}
	return e.remote(key, addr, size, uct.AccessRemoteAtomic)
}

// Atomic32Post implements uct.Atomic. Operations that the attributes do not list are refused.
func (e *endpoint) Atomic32Post(op uct.AtomicOp, value uint32, raddr uint64, key *uct.Rkey) error {
	if op > uct.AtomicXor {
		return ucs.ErrUnsupported
	}
	b, err := e.word(key, raddr, 4)
	if err != nil {
		return err
	}
	_, err = op.Do32(b, value)
	return err
}

// Atomic64Post implements uct.Atomic.
func (e *endpoint) Atomic64Post(op uct.AtomicOp, value uint64, raddr uint64, key *uct.Rkey) error {
	if op > uct.AtomicXor {
		return ucs.ErrUnsupported
	}
	b, err := e.word(key, raddr, 8)
	if err != nil {
		return err
	}
	_, err = op.Do64(b, value)
	return err
}

// Atomic32Fetch implements uct.Atomic.
func (e *endpoint) Atomic32Fetch(op uct.AtomicOp, value uint32, result *uint32, raddr uint64, key *uct.Rkey, _ *uct.Completion) error {
	b, err := e.word(key, raddr, 4)
	if err != nil {
		return err
	}
	old, err := op.Do32(b, value)
	if err == nil {
		*result = old
	}
	return err
}

// Atomic64Fetch implements uct.Atomic.
func (e *endpoint) Atomic64Fetch(op uct.AtomicOp, value uint64, result *uint64, raddr uint64, key *uct.Rkey, _ *uct.Completion) error {
	b, err := e.word(key, raddr, 8)
	if err != nil {
		return err
	}
	old, err := op.Do64(b, value)
	if err == nil {
		*result = old
	}
	return err
}

// AtomicCSwap32 implements uct.Atomic.
func (e *endpoint) AtomicCSwap32(compare, swap uint32, raddr uint64, key *uct.Rkey, result *uint32, _ *uct.Completion) error {
	b, err := e.word(key, raddr, 4)
	if err == nil {
		*result = uct.CompareSwap32(b, compare, swap)
	}
	return err
}

// AtomicCSwap64 implements uct.Atomic.
func (e *endpoint) AtomicCSwap64(compare, swap uint64, raddr uint64, key *uct.Rkey, result *uint64, _ *uct.Completion) error {
	b, err := e.word(key, raddr, 8)
	if err == nil {
		*result = uct.CompareSwap64(b, compare, swap)
	}
	return err
}

//go:noinline
func errMisaligned(addr uint64, size int) error {
	return fmt.Errorf("self: atomic on %d bytes at %#x, not a multiple of the size: %w", size, addr, ucs.ErrInvalidParam)
}
