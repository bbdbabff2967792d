package ucp

import (
	"fmt"
	"math/bits"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucs"
)

// OpFlags modify the completion of an operation (the behavior bits of enum
// ucp_op_attr_t).
type OpFlags uint32

// Operation flags, with C's bit numbers.
const (
	// OpNoImmediate never returns (nil, nil): a request is returned even if the operation
	// is already done, and the callback may have run by then.
	OpNoImmediate OpFlags = 1 << 16

	// OpFastComplete prefers early local completion to delivery speed. It excludes
	// OpMultiSend.
	OpFastComplete OpFlags = 1 << 17

	// OpForceImmediate completes in the call, or fails with ucs.ErrNoResource and has no
	// effect. It excludes OpNoImmediate.
	OpForceImmediate OpFlags = 1 << 18

	// OpMultiSend states that many operations will be in flight.
	OpMultiSend OpFlags = 1 << 19

	// opFlagsAll is the set of all operation flags.
	opFlagsAll = OpNoImmediate | OpFastComplete | OpForceImmediate | OpMultiSend
)

// RequestParams are the optional parameters of an operation; nil means all defaults. The
// struct is read during the call and may be reused afterwards. A parameter that does not
// apply to the call gives ucs.ErrInvalidParam.
type RequestParams struct {
	// Flags modify the completion.
	Flags OpFlags

	// Buffer, unless zero, replaces the []byte argument of a send, receive, put or get,
	// which must then be nil. Use it for scatter-gather lists and application-defined
	// datatypes.
	Buffer Buffer

	// OnSend is called when an operation other than a receive finishes, unless it finished
	// in the call.
	OnSend func(r *Request, err error, userData any)

	// OnTagRecv is called when a tag receive finishes, unless it finished in the
	// call. info is valid only without an error.
	OnTagRecv func(r *Request, err error, info TagRecvInfo, userData any)

	// OnStreamRecv is called when a stream receive finishes, unless it finished in the
	// call. n is the number of bytes in the buffer: a whole number of elements without an
	// error; with an error, what had arrived until then.
	OnStreamRecv func(r *Request, err error, n int, userData any)

	// OnAMRecv is called when a receive of the data of an active message finishes, unless
	// it finished in the call. length is the length of the data, and is valid only without
	// an error.
	OnAMRecv func(r *Request, err error, length int, userData any)

	// UserData is passed to the callback.
	UserData any

	// TagInfo is filled in when a tag receive finishes in the call, with success and
	// without OpNoImmediate.
	TagInfo *TagRecvInfo

	// RecvLength is set to the length of the data when a receive of an active message
	// finishes in the call, with success and without OpNoImmediate.
	RecvLength *int

	// AMFlags apply to Endpoint.AMSend.
	AMFlags AMSendFlags

	// Request, if not nil, is the caller's own request object, used instead of one of the
	// library's. It must not be in use. It is returned if the operation does not finish in
	// the call, and must never be freed.
	Request *Request

	// MemoryType is the type of the buffer's memory; the zero value means that the library
	// detects it. Only host memory exists so far.
	MemoryType ucs.MemoryType

	// Memory, if not nil, is registered memory that contains the buffer of a send, put or
	// get. Memory.Close is refused until the operation is done.
	Memory *Memory

	// ReplyBuffer receives the previous value of an atomic operation: 4 or 8 bytes in the
	// byte order of this machine, like the operand.
	ReplyBuffer []byte

	// CloseFlags apply to Endpoint.CloseAsync.
	CloseFlags CloseFlags

	// StreamFlags apply to Endpoint.StreamRecv.
	StreamFlags StreamRecvFlags
}

// CloseFlags modify the closing of an endpoint (enum ucp_ep_close_flags_t).
type CloseFlags uint32

// CloseForce releases the endpoint at once, without the peer: outstanding operations end
// with ucs.ErrCanceled. It needs ErrModePeer.
const CloseForce CloseFlags = 1 << 0

// flags returns the flags of p, 0 if p is nil.
func (p *RequestParams) flags() OpFlags {
	if p == nil {
		return 0
	}
	return p.Flags
}

// noParams stands for a nil *RequestParams.
var noParams RequestParams

// sendMode converts the flags of an operation to the send mode in the decision tables.
func sendMode(attr OpFlags) proto.SendMode {
	var m proto.SendMode
	if attr&OpFastComplete != 0 {
		m |= proto.SendFast
	}
	if attr&OpMultiSend != 0 {
		m |= proto.SendMulti
	}
	return m
}

// All operations share one struct of parameters. The callRule of a call lists the parameters that
// the call takes. Any other parameter is refused, not ignored: a callback that would never run, or
// a buffer that would never be read, is a mistake of the caller.

// params is the set of the fields of RequestParams that are not zero.
type params uint16

const (
	paramBuffer params = 1 << iota
	paramOnSend
	paramOnTagRecv
	paramTagInfo
	paramMemoryType
	paramMemory
	paramReplyBuffer
	paramCloseFlags
	paramOnStreamRecv
	paramStreamFlags
	paramAMFlags
	paramOnAMRecv
	paramRecvLength
)

// paramNames are the names of the bits of params.
var paramNames = [...]string{"Buffer", "OnSend", "OnTagRecv", "TagInfo", "MemoryType", "Memory", "ReplyBuffer", "CloseFlags",
	"OnStreamRecv", "StreamFlags", "AMFlags", "OnAMRecv", "RecvLength"}

// callRule lists the flags and parameters that a call takes. Every call takes UserData and Request.
type callRule struct {
	name  string
	flags OpFlags
	takes params
}

// accessFlags are the flags that every operation except a send may take.
const accessFlags = OpNoImmediate | OpForceImmediate | OpMultiSend

// given returns the parameters that the caller has set.
func (p *RequestParams) given() (set params) {
	if p.Buffer.set {
		set |= paramBuffer
	}
	if p.OnSend != nil {
		set |= paramOnSend
	}
	if p.OnTagRecv != nil {
		set |= paramOnTagRecv
	}
	if p.TagInfo != nil {
		set |= paramTagInfo
	}
	if p.MemoryType != ucs.MemoryUnknown {
		set |= paramMemoryType
	}
	if p.Memory != nil {
		set |= paramMemory
	}
	if p.ReplyBuffer != nil {
		set |= paramReplyBuffer
	}
	if p.CloseFlags != 0 {
		set |= paramCloseFlags
	}
	if p.OnStreamRecv != nil {
		set |= paramOnStreamRecv
	}
	if p.StreamFlags != 0 {
		set |= paramStreamFlags
	}
	if p.AMFlags != 0 {
		set |= paramAMFlags
	}
	if p.OnAMRecv != nil {
		set |= paramOnAMRecv
	}
	if p.RecvLength != nil {
		set |= paramRecvLength
	}
	return set
}

// check returns ucs.ErrInvalidParam for parameters that the call does not take, that contradict each
// other or that are unknown, and ucs.ErrUnsupported for memory other than host memory. buf is the
// buffer argument of the call.
func (c *callRule) check(buf []byte, p *RequestParams) error {
	if p == nil {
		return nil
	}
	const noImmForce = OpNoImmediate | OpForceImmediate
	const fastMulti = OpFastComplete | OpMultiSend
	given := p.given()
	switch {
	case given&^c.takes != 0:
		return c.refuse(paramNames[bits.TrailingZeros16(uint16(given&^c.takes))])
	case p.Flags&^c.flags != 0:
		return c.refuse(fmt.Sprintf("Flags %#x", p.Flags&^c.flags))
	case p.Flags&noImmForce == noImmForce:
		return c.refuse("OpForceImmediate together with OpNoImmediate")
	case p.Flags&fastMulti == fastMulti:
		return c.refuse("OpMultiSend together with OpFastComplete")
	case given&paramBuffer != 0 && buf != nil:
		return c.refuse("Buffer together with a buffer argument")
	case p.CloseFlags&^CloseForce != 0:
		return c.refuse(fmt.Sprintf("CloseFlags %#x", p.CloseFlags&^CloseForce))
	case p.StreamFlags&^StreamRecvWaitAll != 0:
		return c.refuse(fmt.Sprintf("StreamFlags %#x", p.StreamFlags&^StreamRecvWaitAll))
	case p.AMFlags&^amSendFlags != 0:
		return c.refuse(fmt.Sprintf("AMFlags %#x", p.AMFlags&^amSendFlags))
	case !p.MemoryType.Valid():
		return c.refuse(fmt.Sprintf("MemoryType %d", p.MemoryType))
	case p.MemoryType > ucs.MemoryHost:
		return fmt.Errorf("ucp: %s of %v memory: %w", c.name, p.MemoryType, ucs.ErrUnsupported)
	}
	return nil
}

//go:noinline
func (c *callRule) refuse(what string) error {
	return fmt.Errorf("ucp: %s does not take %s: %w", c.name, what, ucs.ErrInvalidParam)
}

// checkMemory returns ucs.ErrInvalidParam if p.Memory is given and does not contain the buffer.
func (p *RequestParams) checkMemory(ctx *Context, data *datatype.Payload) error {
	if p == nil || p.Memory == nil || p.Memory.covers(ctx, data) {
		return nil
	}
	return fmt.Errorf("ucp: the buffer is not inside RequestParams.Memory: %w", ucs.ErrInvalidParam)
}

// plainSend reports whether the short path of a send, put or get supports all parameters in p, and
// the call refuses none of them.
func (p *RequestParams) plainSend() bool {
	return p.Flags&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost &&
		p.Memory == nil && p.OnTagRecv == nil && p.TagInfo == nil && p.ReplyBuffer == nil && p.CloseFlags == 0 && !p.special()
}

// plainRecv is plainSend for receives.
func (p *RequestParams) plainRecv() bool {
	return p.Flags&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost &&
		p.OnSend == nil && p.Memory == nil && p.ReplyBuffer == nil && p.CloseFlags == 0 && !p.special()
}

// plainFetch is plainSend for atomic operations with a reply buffer.
func (p *RequestParams) plainFetch() bool {
	return p.Flags&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost &&
		p.Memory == nil && p.OnTagRecv == nil && p.TagInfo == nil && p.CloseFlags == 0 && !p.special()
}

// plainAtomic is plainFetch for parameters that callRule.check has accepted.
func (p *RequestParams) plainAtomic() bool { return p.Flags&^OpMultiSend == 0 && p.Request == nil }

// special reports whether p has a parameter that only streams or active messages take.
func (p *RequestParams) special() bool {
	return p.AMFlags != 0 || p.OnAMRecv != nil || p.RecvLength != nil || p.OnStreamRecv != nil || p.StreamFlags != 0
}
