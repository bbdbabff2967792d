package ucp

import (
	"fmt"
	"math/bits"

	"github.com/ucx-go/ucx/ucs"
)

// All operations share one struct of parameters. What belongs to a call is in its
// rule; anything else is refused, not ignored: a callback that would
// never run, or a buffer that nothing would read, is a mistake of the caller.

// params is a set of parameters: which of RequestParams are not zero.
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

// callRule says what belongs to a call. UserData and Request belong to all.
type callRule struct {
	name  string
	flags OpFlags
	takes params
}

// accessFlags are the flags that fit any operation but sends.
const accessFlags = OpNoImmediate | OpForceImmediate | OpMultiSend

// given are the parameters that a caller has set.
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

// check refuses parameters that do not belong to the call, contradict each other
// or are unknown. buf is the call's own buffer.
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

// checkMemory refuses registered memory that does not hold the buffer given with
// it.
func (p *RequestParams) checkMemory(ctx *Context, data *payload) error {
	if p == nil || p.Memory == nil || p.Memory.covers(ctx, data) {
		return nil
	}
	return fmt.Errorf("ucp: the buffer is not inside RequestParams.Memory: %w", ucs.ErrInvalidParam)
}

// plainSend reports whether p asks for nothing that the short path of a send, put
// or get cannot do, and has nothing that these refuse.
func (p *RequestParams) plainSend() bool {
	return p.Flags&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost &&
		p.Memory == nil && p.OnTagRecv == nil && p.TagInfo == nil && p.ReplyBuffer == nil && p.CloseFlags == 0 && !p.special()
}

// plainRecv is plainSend for receives.
func (p *RequestParams) plainRecv() bool {
	return p.Flags&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost &&
		p.OnSend == nil && p.Memory == nil && p.ReplyBuffer == nil && p.CloseFlags == 0 && !p.special()
}

// plainFetch is plainSend for atomic operations that have a reply buffer.
func (p *RequestParams) plainFetch() bool {
	return p.Flags&^OpMultiSend == 0 && !p.Buffer.set && p.Request == nil && p.MemoryType <= ucs.MemoryHost &&
		p.Memory == nil && p.OnTagRecv == nil && p.TagInfo == nil && p.CloseFlags == 0 && !p.special()
}

// plainAtomic is plainFetch for parameters that were checked.
func (p *RequestParams) plainAtomic() bool { return p.Flags&^OpMultiSend == 0 && p.Request == nil }

// special reports whether p has something that only streams or active messages have.
func (p *RequestParams) special() bool {
	return p.AMFlags != 0 || p.OnAMRecv != nil || p.RecvLength != nil || p.OnStreamRecv != nil || p.StreamFlags != 0
}
