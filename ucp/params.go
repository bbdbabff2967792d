package ucp

import (
	"github.com/ucx-go/ucx/proto"
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

	// opFlagsAll are those that there are.
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
	// it finished in the call. length, that of the data, is valid only without an error.
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

// flags are those of parameters that may be nil.
func (p *RequestParams) flags() OpFlags {
	if p == nil {
		return 0
	}
	return p.Flags
}

// noParams stands for a nil *RequestParams.
var noParams RequestParams

// sendMode translates the flags of an operation for the tables.
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
