//go:build linux

package shm

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// word returns the mapping of an operand of size bytes, as the method remote does, and checks that
// raddr is aligned. Keys open whole pages, so an address that is aligned in the peer is aligned in
// this process.
func (e *endpoint) word(key *uct.Rkey, raddr uint64, size int) (*attachment, []byte, error) {
	if raddr&uint64(size-1) != 0 {
		return nil, nil, errMisaligned(raddr, size)
	}
	return e.remote(key, raddr, size)
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

// Atomic64Fetch implements uct.Endpoint. An addition, the most frequent operation, takes a
// short path.
func (e *endpoint) Atomic64Fetch(op uct.AtomicOp, value uint64, result *uint64, raddr uint64, key *uct.Rkey, _ *uct.Completion) error {
	if op == uct.AtomicAdd && raddr&7 == 0 {
		if b, cut := e.plain(key, raddr, 8); cut != nil {
			return e.addFenced(cut, b, value, result)
		} else if b != nil {
			*result = word.Add64(b, value)
			return nil
		}
	}
	old, err := e.fetch64(op, value, raddr, key)
	if err == nil {
		*result = old
	}
	return err
}

// AtomicCSwap32 implements uct.Endpoint.
func (e *endpoint) AtomicCSwap32(compare, swap uint32, raddr uint64, key *uct.Rkey, result *uint32, _ *uct.Completion) (err error) {
	a, b, err := e.word(key, raddr, 4)
	if err != nil {
		return err
	}
	if a.shrink {
		defer fault.End(fault.Begin(), e, a.mem, &err)
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
		defer fault.End(fault.Begin(), e, a.mem, &err)
	}
	*result = word.CompareSwap64(b, compare, swap)
	return nil
}

func (e *endpoint) fetch32(op uct.AtomicOp, value uint32, raddr uint64, key *uct.Rkey) (old uint32, err error) {
	a, b, err := e.word(key, raddr, 4)
	if err != nil {
		return 0, err
	}
	if a.shrink {
		return fetchFenced(e, a, uct.AtomicOp.Do32, op, b, value)
	}
	return op.Do32(b, value)
}

func (e *endpoint) fetch64(op uct.AtomicOp, value uint64, raddr uint64, key *uct.Rkey) (old uint64, err error) {
	a, b, err := e.word(key, raddr, 8)
	if err != nil {
		return 0, err
	}
	if a.shrink {
		return fetchFenced(e, a, uct.AtomicOp.Do64, op, b, value)
	}
	return op.Do64(b, value)
}

// fetchFenced does an atomic operation on memory that can shrink, inside a fence (internal/fault).
// do is Do32 or Do64.
func fetchFenced[V uint32 | uint64](e *endpoint, a *attachment, do func(uct.AtomicOp, []byte, V) (V, error), op uct.AtomicOp, b []byte, value V) (old V, err error) {
	var f fault.Fence
	f.Begin()
	defer f.End(e, a.mem, &err)
	old, err = do(op, b, value)
	f.Passed()
	return old, err
}

// addFenced does what fetchFenced does, for a 64-bit addition, the most frequent operation: the
// calls inside fetchFenced cost as much as the addition.
func (e *endpoint) addFenced(a *attachment, b []byte, value uint64, result *uint64) (err error) {
	var f fault.Fence
	f.Begin()
	defer f.End(e, a.mem, &err)
	*result = word.Add64(b, value)
	f.Passed()
	return nil
}

//go:noinline
func errMisaligned(raddr uint64, size int) error {
	return fmt.Errorf("shm: atomic operation on %d bytes at %#x, which is not aligned: %w", size, raddr, ucs.ErrInvalidParam)
}
