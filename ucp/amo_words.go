package ucp

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// The atomic operations on words of 32 and 64 bits, by themselves: Endpoint.Atomic
// with numbers instead of bytes. The place comes first, as in package sync/atomic:
// the address in the peer's memory, a multiple of the size, and the key that opens
// it. Nothing is allocated.
//
//	Atomic…       changes the word; done at once for the caller
//	Fetch…, Swap  stores the value from before in *old
//	CompareSwap   stores new if the word is compare, and in any case the value from
//	              before in *old
//
// *old is the library's until the operation is done. The forms with Wait wait for
// the previous value and return it.

// AtomicAdd32 adds v to the 32 bits at raddr.
func (ep *Endpoint) AtomicAdd32(raddr uint64, key *Rkey, v uint32, p *RequestParams) (*Request, error) {
	return ep.post32(AtomicAdd, raddr, key, v, p)
}

// AtomicAdd64 adds v to the 64 bits at raddr.
func (ep *Endpoint) AtomicAdd64(raddr uint64, key *Rkey, v uint64, p *RequestParams) (*Request, error) {
	return ep.post64(AtomicAdd, raddr, key, v, p)
}

// AtomicAnd32 sets the 32 bits at raddr to their bitwise AND with v.
func (ep *Endpoint) AtomicAnd32(raddr uint64, key *Rkey, v uint32, p *RequestParams) (*Request, error) {
	return ep.post32(AtomicAnd, raddr, key, v, p)
}

// AtomicAnd64 sets the 64 bits at raddr to their bitwise AND with v.
func (ep *Endpoint) AtomicAnd64(raddr uint64, key *Rkey, v uint64, p *RequestParams) (*Request, error) {
	return ep.post64(AtomicAnd, raddr, key, v, p)
}

// AtomicOr32 sets the 32 bits at raddr to their bitwise OR with v.
func (ep *Endpoint) AtomicOr32(raddr uint64, key *Rkey, v uint32, p *RequestParams) (*Request, error) {
	return ep.post32(AtomicOr, raddr, key, v, p)
}

// AtomicOr64 sets the 64 bits at raddr to their bitwise OR with v.
func (ep *Endpoint) AtomicOr64(raddr uint64, key *Rkey, v uint64, p *RequestParams) (*Request, error) {
	return ep.post64(AtomicOr, raddr, key, v, p)
}

// AtomicXor32 sets the 32 bits at raddr to their bitwise XOR with v.
func (ep *Endpoint) AtomicXor32(raddr uint64, key *Rkey, v uint32, p *RequestParams) (*Request, error) {
	return ep.post32(AtomicXor, raddr, key, v, p)
}

// AtomicXor64 sets the 64 bits at raddr to their bitwise XOR with v.
func (ep *Endpoint) AtomicXor64(raddr uint64, key *Rkey, v uint64, p *RequestParams) (*Request, error) {
	return ep.post64(AtomicXor, raddr, key, v, p)
}

// FetchAdd32 adds v to the 32 bits at raddr, and stores the previous value in *old.
func (ep *Endpoint) FetchAdd32(raddr uint64, key *Rkey, v uint32, old *uint32, p *RequestParams) (*Request, error) {
	return ep.fetch32(AtomicAdd, raddr, key, v, old, p)
}

// FetchAdd32Wait is FetchAdd32 and waits for the previous value.
func (ep *Endpoint) FetchAdd32Wait(ctx context.Context, raddr uint64, key *Rkey, v uint32) (uint32, error) {
	return ep.fetchWait32(ctx, AtomicAdd, raddr, key, v, 0)
}

// FetchAdd64 adds v to the 64 bits at raddr, and stores the previous value in *old.
func (ep *Endpoint) FetchAdd64(raddr uint64, key *Rkey, v uint64, old *uint64, p *RequestParams) (*Request, error) {
	return ep.fetch64(AtomicAdd, raddr, key, v, old, p)
}

// FetchAdd64Wait is FetchAdd64 and waits for the previous value.
func (ep *Endpoint) FetchAdd64Wait(ctx context.Context, raddr uint64, key *Rkey, v uint64) (uint64, error) {
	return ep.fetchWait64(ctx, AtomicAdd, raddr, key, v, 0)
}

// FetchAnd32 sets the 32 bits at raddr to their bitwise AND with v, and stores the previous value in *old.
func (ep *Endpoint) FetchAnd32(raddr uint64, key *Rkey, v uint32, old *uint32, p *RequestParams) (*Request, error) {
	return ep.fetch32(AtomicAnd, raddr, key, v, old, p)
}

// FetchAnd32Wait is FetchAnd32 and waits for the previous value.
func (ep *Endpoint) FetchAnd32Wait(ctx context.Context, raddr uint64, key *Rkey, v uint32) (uint32, error) {
	return ep.fetchWait32(ctx, AtomicAnd, raddr, key, v, 0)
}

// FetchAnd64 sets the 64 bits at raddr to their bitwise AND with v, and stores the previous value in *old.
func (ep *Endpoint) FetchAnd64(raddr uint64, key *Rkey, v uint64, old *uint64, p *RequestParams) (*Request, error) {
	return ep.fetch64(AtomicAnd, raddr, key, v, old, p)
}

// FetchAnd64Wait is FetchAnd64 and waits for the previous value.
func (ep *Endpoint) FetchAnd64Wait(ctx context.Context, raddr uint64, key *Rkey, v uint64) (uint64, error) {
	return ep.fetchWait64(ctx, AtomicAnd, raddr, key, v, 0)
}

// FetchOr32 sets the 32 bits at raddr to their bitwise OR with v, and stores the previous value in *old.
func (ep *Endpoint) FetchOr32(raddr uint64, key *Rkey, v uint32, old *uint32, p *RequestParams) (*Request, error) {
	return ep.fetch32(AtomicOr, raddr, key, v, old, p)
}

// FetchOr32Wait is FetchOr32 and waits for the previous value.
func (ep *Endpoint) FetchOr32Wait(ctx context.Context, raddr uint64, key *Rkey, v uint32) (uint32, error) {
	return ep.fetchWait32(ctx, AtomicOr, raddr, key, v, 0)
}

// FetchOr64 sets the 64 bits at raddr to their bitwise OR with v, and stores the previous value in *old.
func (ep *Endpoint) FetchOr64(raddr uint64, key *Rkey, v uint64, old *uint64, p *RequestParams) (*Request, error) {
	return ep.fetch64(AtomicOr, raddr, key, v, old, p)
}

// FetchOr64Wait is FetchOr64 and waits for the previous value.
func (ep *Endpoint) FetchOr64Wait(ctx context.Context, raddr uint64, key *Rkey, v uint64) (uint64, error) {
	return ep.fetchWait64(ctx, AtomicOr, raddr, key, v, 0)
}

// FetchXor32 sets the 32 bits at raddr to their bitwise XOR with v, and stores the previous value in *old.
func (ep *Endpoint) FetchXor32(raddr uint64, key *Rkey, v uint32, old *uint32, p *RequestParams) (*Request, error) {
	return ep.fetch32(AtomicXor, raddr, key, v, old, p)
}

// FetchXor32Wait is FetchXor32 and waits for the previous value.
func (ep *Endpoint) FetchXor32Wait(ctx context.Context, raddr uint64, key *Rkey, v uint32) (uint32, error) {
	return ep.fetchWait32(ctx, AtomicXor, raddr, key, v, 0)
}

// FetchXor64 sets the 64 bits at raddr to their bitwise XOR with v, and stores the previous value in *old.
func (ep *Endpoint) FetchXor64(raddr uint64, key *Rkey, v uint64, old *uint64, p *RequestParams) (*Request, error) {
	return ep.fetch64(AtomicXor, raddr, key, v, old, p)
}

// FetchXor64Wait is FetchXor64 and waits for the previous value.
func (ep *Endpoint) FetchXor64Wait(ctx context.Context, raddr uint64, key *Rkey, v uint64) (uint64, error) {
	return ep.fetchWait64(ctx, AtomicXor, raddr, key, v, 0)
}

// Swap32 stores v in the 32 bits at raddr, and the previous value in *old.
func (ep *Endpoint) Swap32(raddr uint64, key *Rkey, v uint32, old *uint32, p *RequestParams) (*Request, error) {
	return ep.fetch32(AtomicSwap, raddr, key, v, old, p)
}

// Swap32Wait is Swap32 and waits for the previous value.
func (ep *Endpoint) Swap32Wait(ctx context.Context, raddr uint64, key *Rkey, v uint32) (uint32, error) {
	return ep.fetchWait32(ctx, AtomicSwap, raddr, key, v, 0)
}

// Swap64 stores v in the 64 bits at raddr, and the previous value in *old.
func (ep *Endpoint) Swap64(raddr uint64, key *Rkey, v uint64, old *uint64, p *RequestParams) (*Request, error) {
	return ep.fetch64(AtomicSwap, raddr, key, v, old, p)
}

// Swap64Wait is Swap64 and waits for the previous value.
func (ep *Endpoint) Swap64Wait(ctx context.Context, raddr uint64, key *Rkey, v uint64) (uint64, error) {
	return ep.fetchWait64(ctx, AtomicSwap, raddr, key, v, 0)
}

// CompareSwap32 stores new in the 32 bits at raddr if they equal compare, and stores the previous
// value in *old.
func (ep *Endpoint) CompareSwap32(raddr uint64, key *Rkey, compare, new uint32, old *uint32, p *RequestParams) (*Request, error) {
	if old != nil {
		*old = new // Atomic takes it from there
	}
	return ep.fetch32(AtomicCompareSwap, raddr, key, compare, old, p)
}

// CompareSwap32Wait is CompareSwap32 and waits for the previous value. The bits
// were changed if it equals compare.
func (ep *Endpoint) CompareSwap32Wait(ctx context.Context, raddr uint64, key *Rkey, compare, new uint32) (uint32, error) {
	return ep.fetchWait32(ctx, AtomicCompareSwap, raddr, key, compare, new)
}

// CompareSwap64 stores new in the 64 bits at raddr if they equal compare, and stores the previous
// value in *old.
func (ep *Endpoint) CompareSwap64(raddr uint64, key *Rkey, compare, new uint64, old *uint64, p *RequestParams) (*Request, error) {
	if old != nil {
		*old = new // Atomic takes it from there
	}
	return ep.fetch64(AtomicCompareSwap, raddr, key, compare, old, p)
}

// CompareSwap64Wait is CompareSwap64 and waits for the previous value. The bits
// were changed if it equals compare.
func (ep *Endpoint) CompareSwap64Wait(ctx context.Context, raddr uint64, key *Rkey, compare, new uint64) (uint64, error) {
	return ep.fetchWait64(ctx, AtomicCompareSwap, raddr, key, compare, new)
}

func (ep *Endpoint) post32(op AtomicOp, raddr uint64, key *Rkey, v uint32, p *RequestParams) (*Request, error) {
	if p != nil && p.ReplyBuffer != nil {
		return nil, errReply()
	}
	var operand [4]byte
	binary.NativeEndian.PutUint32(operand[:], v)
	return ep.Atomic(op, operand[:], raddr, key, p)
}

func (ep *Endpoint) fetch32(op AtomicOp, raddr uint64, key *Rkey, v uint32, old *uint32, p *RequestParams) (*Request, error) {
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
	with.ReplyBuffer = bytesOf32(old)
	var operand [4]byte
	binary.NativeEndian.PutUint32(operand[:], v)
	return ep.Atomic(op, operand[:], raddr, key, &with)
}

// fetchWait32 has the value from before stored in the call.
func (ep *Endpoint) fetchWait32(ctx context.Context, op AtomicOp, raddr uint64, key *Rkey, v, new uint32) (uint32, error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.AtomicWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startAtomic)
	if err != nil {
		return 0, err
	}
	c.buf, c.params.ReplyBuffer = c.operand[:4], c.reply[:4]
	binary.NativeEndian.PutUint32(c.buf, v)
	binary.NativeEndian.PutUint32(c.reply[:], new)
	old, err := c.waitWord(ctx, ep, op, raddr, key)
	return binary.NativeEndian.Uint32(old[:]), err
}

// waitWord is wait for atomic operations on a word, which it returns.
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

func (ep *Endpoint) post64(op AtomicOp, raddr uint64, key *Rkey, v uint64, p *RequestParams) (*Request, error) {
	if p != nil && p.ReplyBuffer != nil {
		return nil, errReply()
	}
	var operand [8]byte
	binary.NativeEndian.PutUint64(operand[:], v)
	return ep.Atomic(op, operand[:], raddr, key, p)
}

func (ep *Endpoint) fetch64(op AtomicOp, raddr uint64, key *Rkey, v uint64, old *uint64, p *RequestParams) (*Request, error) {
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
	with.ReplyBuffer = bytesOf64(old)
	var operand [8]byte
	binary.NativeEndian.PutUint64(operand[:], v)
	return ep.Atomic(op, operand[:], raddr, key, &with)
}

// fetchWait64 is the same for 8 bytes.
func (ep *Endpoint) fetchWait64(ctx context.Context, op AtomicOp, raddr uint64, key *Rkey, v, new uint64) (uint64, error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.AtomicWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startAtomic)
	if err != nil {
		return 0, err
	}
	c.buf, c.params.ReplyBuffer = c.operand[:], c.reply[:]
	binary.NativeEndian.PutUint64(c.buf, v)
	binary.NativeEndian.PutUint64(c.reply[:], new)
	old, err := c.waitWord(ctx, ep, op, raddr, key)
	return binary.NativeEndian.Uint64(old[:]), err
}

//go:noinline
func errReply() error {
	return fmt.Errorf("ucp: atomic operation: the previous value goes to old, which must not be nil, and ReplyBuffer must not be set: %w", ucs.ErrInvalidParam)
}
