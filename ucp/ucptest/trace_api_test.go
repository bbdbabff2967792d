//go:build linux

package ucptest

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/ucp"
)

// The parts of the public API that traces use, in one place.

// ending is called with the result of an operation of a trace.
type ending func(err error, info ucp.TagRecvInfo)

// sendParams and recvParams return the parameters of operations whose result is passed to over.
func sendParams(over ending) *ucp.RequestParams {
	return &ucp.RequestParams{OnSend: func(_ *ucp.Request, err error, _ any) { over(err, ucp.TagRecvInfo{}) }}
}

func recvParams(over ending, info *ucp.TagRecvInfo) *ucp.RequestParams {
	return &ucp.RequestParams{
		OnTagRecv: func(_ *ucp.Request, err error, info ucp.TagRecvInfo, _ any) { over(err, info) },
		TagInfo:   info,
	}
}

// flagNames are the names of the flags of operations in commands.
var flagNames = map[string]ucp.OpFlags{
	"fast": ucp.OpFastComplete, "multi": ucp.OpMultiSend, "now": ucp.OpForceImmediate, "callback": ucp.OpNoImmediate,
}

func addFlag(p *ucp.RequestParams, f ucp.OpFlags) { p.Flags |= f }

// closeEndpoint closes in a way that does not wait.
func closeEndpoint(ep *ucp.Endpoint, force bool, p *ucp.RequestParams) (*ucp.Request, error) {
	if force {
		p.CloseFlags = ucp.CloseForce
	}
	return ep.CloseAsync(p)
}

// peek looks for a message without taking it; take takes it.
func peekMessage(w *ucp.Worker, tag ucp.Tag) (ucp.TagRecvInfo, bool) {
	return w.TagPeek(tag, ucp.FullMask)
}

func takeMessage(w *ucp.Worker, tag ucp.Tag) (m *ucp.TagMessage, info ucp.TagRecvInfo, ok bool) {
	if m, ok = w.TagTake(tag, ucp.FullMask); ok {
		info = m.Info()
	}
	return m, info, ok
}

// atomicOps are the names of the atomic operations in commands.
var atomicOps = map[string]ucp.AtomicOp{
	"add": ucp.AtomicAdd, "and": ucp.AtomicAnd, "or": ucp.AtomicOr, "xor": ucp.AtomicXor,
	"swap": ucp.AtomicSwap, "compare-swap": ucp.AtomicCompareSwap,
}

// startAtomic starts an atomic operation on size bytes. reply, if not nil, gets the previous value;
// for a compare-and-swap it holds the new value.
func startAtomic(ep *ucp.Endpoint, op ucp.AtomicOp, x uint64, size int, reply []byte, addr uint64, key *ucp.Rkey, p *ucp.RequestParams) (*ucp.Request, error) {
	p.ReplyBuffer = reply
	operand := binary.NativeEndian.AppendUint64(nil, x)
	if size == 4 {
		operand = binary.NativeEndian.AppendUint32(nil, uint32(x))
	}
	return ep.Atomic(op, operand, addr, key, p)
}

// allocateMemory allocates memory that peers may map.
func allocateMemory(ctx *ucp.Context, n int) (*ucp.Memory, error) {
	return ctx.MemMap(ucp.MemMapParams{Length: n, Flags: ucp.MemMapAllocate})
}

// registerMemory registers b for access by peers.
func registerMemory(ctx *ucp.Context, b []byte) (*ucp.Memory, error) {
	return ctx.MemMap(ucp.MemMapParams{Buffer: b})
}

// protocolOf returns the protocol of a request.
func protocolOf(r *ucp.Request) string { return protocolBehind(r) }

// protocolBehind returns the protocol of the request that a transport calls back, which describes
// itself as ucp.Request.Attr does: protocol, transport/device.
func protocolBehind(by any) string {
	var text string
	switch by := by.(type) {
	case interface {
		Attr() (ucp.RequestAttr, error)
	}:
		a, err := by.Attr()
		if err != nil {
			return ""
		}
		text = a.Info
	case fmt.Stringer:
		text = by.String()
	}
	if i := strings.LastIndexByte(text, ' '); i >= 0 && strings.Contains(text[i:], "/") {
		text = text[:i]
	}
	return text
}
