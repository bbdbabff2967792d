package ucp

import (
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// Features select the families of operations a context is used for (enum
// ucp_feature). An operation of a family that was not requested fails with
// ucs.ErrInvalidParam.
type Features uint64

// Features, with C's bit numbers.
const (
	FeatureTag          Features = 1 << 0
	FeatureRMA          Features = 1 << 1
	FeatureAMO32        Features = 1 << 2
	FeatureAMO64        Features = 1 << 3
	FeatureWakeup       Features = 1 << 4
	FeatureStream       Features = 1 << 5
	FeatureAM           Features = 1 << 6
	FeatureExportedMemh Features = 1 << 7

	featuresKnown = FeatureExportedMemh<<1 - 1
)

var featureNames = [...]string{"tag", "rma", "amo32", "amo64", "wakeup", "stream", "am", "exported_memh"}

// String lists the features by name.
func (f Features) String() string {
	var names []string
	for i, n := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// Tag is the 64-bit label by which receives select messages.
type Tag = proto.Tag

// FullMask makes a receive match one tag exactly.
const FullMask Tag = ^Tag(0)

// TagRecvInfo tells what a receive got.
type TagRecvInfo struct {
	SenderTag Tag // the sender's tag, all 64 bits
	Length    int // bytes of the message
}

// OpFlags modify the completion of an operation (the behavior bits of enum
// ucp_op_attr_t).
type OpFlags uint32

// Operation flags, with C's bit numbers.
const (
	// OpNoImmediate never returns (nil, nil): a request is returned even when
	// the operation is already done, and the callback may have run by then.
	OpNoImmediate OpFlags = 1 << 16

	// OpFastComplete prefers early local completion to delivery speed. It
	// excludes OpMultiSend.
	OpFastComplete OpFlags = 1 << 17

	// OpForceImmediate finishes in the call or fails with ucs.ErrNoResource and
	// leaves no trace. It excludes OpNoImmediate.
	OpForceImmediate OpFlags = 1 << 18

	// OpMultiSend says that many operations will be in flight.
	OpMultiSend OpFlags = 1 << 19
)

// RequestParams are the optional parameters of an operation. nil means all
// defaults. The struct is read during the call and may be reused afterwards.
type RequestParams struct {
	// Attr modifies the completion.
	Attr OpFlags

	// Buffer, unless zero, replaces the []byte argument of the call: use it for
	// scatter-gather lists and user-defined datatypes.
	Buffer Buffer

	// OnSend is called when a send, flush or close finishes, unless it finished
	// in the call.
	OnSend func(r *Request, err error, userData any)

	// OnTagRecv is called when a tag receive finishes, unless it finished in the
	// call. info is valid only without an error.
	OnTagRecv func(r *Request, err error, info TagRecvInfo, userData any)

	// UserData is passed to the callback.
	UserData any

	// TagInfo is filled in when a tag receive finishes in the call, with success
	// and without OpNoImmediate.
	TagInfo *TagRecvInfo

	// Request, if not nil, is the caller's own request object to be used instead
	// of one of the library. It must not be in use; it is returned when the
	// operation does not finish in the call and is never given to Free.
	Request *Request

	// MemoryType says where the buffer lives; the zero value means "find out".
	// Only host memory exists so far.
	MemoryType ucs.MemoryType

	// Memory, if not nil, is registered memory that holds the buffer of a send,
	// put or get. It must not be unmapped before the operation is done.
	Memory *Memory

	// ReplyBuffer takes the value from before an atomic operation: 4 or 8 bytes
	// in the byte order of the machine, like the operand.
	ReplyBuffer []byte

	// CloseFlags apply to Endpoint.CloseAsync.
	CloseFlags CloseFlags
}

// noParams stands for a nil *RequestParams.
var noParams RequestParams

// plain reports whether p asks for nothing that the short paths cannot do.
func (p *RequestParams) plain() bool {
	return p.Attr&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost
}

// CloseFlags modify the closing of an endpoint (enum ucp_ep_close_flags_t).
type CloseFlags uint32

// CloseForce releases the endpoint at once, without the peer: what is
// outstanding ends with ucs.ErrCanceled. It needs ErrModePeer.
const CloseForce CloseFlags = 1 << 0

// check refuses contradictory or unknown parameters.
func (p *RequestParams) check() error {
	const noImmForce = OpNoImmediate | OpForceImmediate
	const fastMulti = OpFastComplete | OpMultiSend
	if p.Attr&noImmForce == noImmForce || p.Attr&fastMulti == fastMulti {
		return ucs.ErrInvalidParam
	}
	if !p.MemoryType.Valid() {
		return ucs.ErrInvalidParam
	}
	if p.MemoryType > ucs.MemoryHost {
		return ucs.ErrUnsupported
	}
	return nil
}
