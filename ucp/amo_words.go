package ucp

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucs"
)

// Atomic operations on one word, generic in the word's type. They are Endpoint.Atomic with integers
// instead of bytes, and are named after ucp_atomic_post and ucp_atomic_fetch of C UCX. As in
// package sync/atomic, the location of the word comes before the operands: its address in the
// peer's memory, a multiple of the word's size, and the remote key of that memory. The functions do
// not allocate.
//
//	Post…         changes the word; *RequestParams say how completion is reported
//	Fetch…, Swap  also stores the previous value in *old
//	CompareSwap   stores new if the word equals compare, and the previous value in *old
//
// *old belongs to the library until the operation is done. The forms with Wait wait for the
// previous value and return it.

// Word is the type of the words of atomic operations: 32 or 64 bits in the byte order of the
// machine.
type Word interface{ ~uint32 | ~uint64 }

// PostAdd adds v to the word at raddr.
func PostAdd[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, p *RequestParams) (*Request, error) {
	return startPost(ep, AtomicAdd, raddr, key, v, p)
}

// PostAnd sets the word at raddr to its bitwise AND with v.
func PostAnd[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, p *RequestParams) (*Request, error) {
	return startPost(ep, AtomicAnd, raddr, key, v, p)
}

// PostOr sets the word at raddr to its bitwise OR with v.
func PostOr[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, p *RequestParams) (*Request, error) {
	return startPost(ep, AtomicOr, raddr, key, v, p)
}

// PostXor sets the word at raddr to its bitwise XOR with v.
func PostXor[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, p *RequestParams) (*Request, error) {
	return startPost(ep, AtomicXor, raddr, key, v, p)
}

// FetchAdd adds v to the word at raddr, and stores the previous value in *old.
func FetchAdd[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, old *T, p *RequestParams) (*Request, error) {
	return startFetch(ep, AtomicAdd, raddr, key, v, old, p)
}

// FetchAddWait is FetchAdd and waits for the previous value, which it returns.
func FetchAddWait[T Word](ctx context.Context, ep *Endpoint, raddr uint64, key *Rkey, v T) (T, error) {
	return fetchAndWait(ctx, ep, AtomicAdd, raddr, key, v, 0)
}

// FetchAnd sets the word at raddr to its bitwise AND with v, and stores the previous value in *old.
func FetchAnd[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, old *T, p *RequestParams) (*Request, error) {
	return startFetch(ep, AtomicAnd, raddr, key, v, old, p)
}

// FetchAndWait is FetchAnd and waits for the previous value, which it returns.
func FetchAndWait[T Word](ctx context.Context, ep *Endpoint, raddr uint64, key *Rkey, v T) (T, error) {
	return fetchAndWait(ctx, ep, AtomicAnd, raddr, key, v, 0)
}

// FetchOr sets the word at raddr to its bitwise OR with v, and stores the previous value in *old.
func FetchOr[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, old *T, p *RequestParams) (*Request, error) {
	return startFetch(ep, AtomicOr, raddr, key, v, old, p)
}

// FetchOrWait is FetchOr and waits for the previous value, which it returns.
func FetchOrWait[T Word](ctx context.Context, ep *Endpoint, raddr uint64, key *Rkey, v T) (T, error) {
	return fetchAndWait(ctx, ep, AtomicOr, raddr, key, v, 0)
}

// FetchXor sets the word at raddr to its bitwise XOR with v, and stores the previous value in *old.
func FetchXor[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, old *T, p *RequestParams) (*Request, error) {
	return startFetch(ep, AtomicXor, raddr, key, v, old, p)
}

// FetchXorWait is FetchXor and waits for the previous value, which it returns.
func FetchXorWait[T Word](ctx context.Context, ep *Endpoint, raddr uint64, key *Rkey, v T) (T, error) {
	return fetchAndWait(ctx, ep, AtomicXor, raddr, key, v, 0)
}

// Swap stores v in the word at raddr, and stores the previous value in *old.
func Swap[T Word](ep *Endpoint, raddr uint64, key *Rkey, v T, old *T, p *RequestParams) (*Request, error) {
	return startFetch(ep, AtomicSwap, raddr, key, v, old, p)
}

// SwapWait is Swap and waits for the previous value, which it returns.
func SwapWait[T Word](ctx context.Context, ep *Endpoint, raddr uint64, key *Rkey, v T) (T, error) {
	return fetchAndWait(ctx, ep, AtomicSwap, raddr, key, v, 0)
}

// CompareSwap stores new in the word at raddr if it equals compare, and stores the previous
// value in *old.
func CompareSwap[T Word](ep *Endpoint, raddr uint64, key *Rkey, compare, new T, old *T, p *RequestParams) (*Request, error) {
	if old != nil {
		*old = new // Endpoint.Atomic takes it from there
	}
	return startFetch(ep, AtomicCompareSwap, raddr, key, compare, old, p)
}

// CompareSwapWait is CompareSwap and waits for the previous value, which it returns. The word
// was changed if that equals compare.
func CompareSwapWait[T Word](ctx context.Context, ep *Endpoint, raddr uint64, key *Rkey, compare, new T) (T, error) {
	return fetchAndWait(ctx, ep, AtomicCompareSwap, raddr, key, compare, new)
}

// putWord stores v in the first 4 or 8 bytes of b, and returns these bytes.
func putWord[T Word](b *[8]byte, v T) []byte {
	if word.Size[T]() == 4 {
		binary.NativeEndian.PutUint32(b[:], uint32(v))
		return b[:4]
	}
	binary.NativeEndian.PutUint64(b[:], uint64(v))
	return b[:]
}

func startPost[T Word](ep *Endpoint, op AtomicOp, raddr uint64, key *Rkey, v T, p *RequestParams) (*Request, error) {
	if p != nil && p.ReplyBuffer != nil {
		return nil, errReply()
	}
	var operand [8]byte
	return ep.Atomic(op, putWord(&operand, v), raddr, key, p)
}

func startFetch[T Word](ep *Endpoint, op AtomicOp, raddr uint64, key *Rkey, v T, old *T, p *RequestParams) (*Request, error) {
	if ep.missing() {
		return nil, errMissing("Endpoint.Atomic", ep == nil)
	}
	if old == nil || p != nil && p.ReplyBuffer != nil {
		return nil, errReply()
	}
	var with RequestParams
	if p != nil {
		with = *p
	}
	with.ReplyBuffer = word.Bytes(old)
	var operand [8]byte
	return ep.Atomic(op, putWord(&operand, v), raddr, key, &with)
}

// fetchAndWait starts a fetching operation, waits for it and returns the previous value. The reply
// buffer is part of the call object.
func fetchAndWait[T Word](ctx context.Context, ep *Endpoint, op AtomicOp, raddr uint64, key *Rkey, v, new T) (T, error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.AtomicWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startAtomic)
	if err != nil {
		return 0, err
	}
	c.buf, c.params.ReplyBuffer = putWord(&c.operand, v), putWord(&c.reply, new)
	old, err := c.waitWord(ctx, ep, op, raddr, key)
	if word.Size[T]() == 4 {
		return T(binary.NativeEndian.Uint32(old[:])), err
	}
	return T(binary.NativeEndian.Uint64(old[:])), err
}

// waitWord carries out an atomic operation, waits for it, and returns the previous value in the
// first 4 or 8 bytes of old.
func (c *call) waitWord(ctx context.Context, ep *Endpoint, op AtomicOp, raddr uint64, key *Rkey) (old [8]byte, err error) {
	c.ep, c.op, c.raddr, c.key, c.use, c.p = ep, op, raddr, key, memoryOwn, &c.params
	lost, err := c.await(ctx)
	if lost {
		return old, err
	}
	if err == nil {
		old = c.reply
	}
	c.drop()
	return old, err
}

//go:noinline
func errReply() error {
	return fmt.Errorf("ucp: atomic operation: the previous value goes to old, which must not be nil, and ReplyBuffer must not be set: %w", ucs.ErrInvalidParam)
}
