//go:build linux

package perfoob

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ucx-go/ucx/ucs"
)

// Append appends the parameter structure of release r and the message sizes
// that follow it.
func (p *Params) Append(b []byte, r Release) []byte {
	l := &layouts[r]
	start := len(b)
	b = append(b, make([]byte, l.size)...)
	s := b[start:]
	put := binary.LittleEndian.PutUint32
	put64 := binary.LittleEndian.PutUint64
	putFloat := func(b []byte, f float64) { put64(b, math.Float64bits(f)) }

	put(s[0:], uint32(apiLast))
	put(s[4:], uint32(cmdLast))
	put(s[8:], uint32(typeLast))
	id := int32(noTest)
	if t := p.Test; t != nil {
		put(s[0:], uint32(t.API))
		put(s[4:], uint32(t.Command))
		put(s[8:], uint32(t.Type))
		id = t.id(r)
	}
	put(s[12:], uint32(p.ThreadMode))
	put(s[16:], p.Threads)
	put(s[20:], uint32(p.Async))
	put(s[24:], uint32(p.WaitMode))
	put(s[28:], uint32(p.SendMem.Wire()))
	put(s[32:], uint32(p.RecvMem.Wire()))
	put(s[l.flags:], uint32(p.Flags))
	put64(s[l.sizeCount:], uint64(len(p.Sizes)))
	put64(s[l.stride:], uint64(p.Stride))
	put64(s[l.alignment:], pageSize)
	put(s[l.window:], p.Window)
	put64(s[l.warmupIters:], p.WarmupIters)
	putFloat(s[l.warmupTime:], p.WarmupTime)
	put64(s[l.iters:], p.Iters)
	putFloat(s[l.maxTime:], p.MaxTime)
	putFloat(s[l.interval:], p.Interval)
	putFloat(s[l.percentile:], p.Percentile)
	putName(s[l.device:l.device+deviceLen], p.Device)
	putName(s[l.transport:l.transport+transportLen], p.Transport)
	put(s[l.layout:], uint32(p.Layout))
	put(s[l.fcWindow:], p.FCWindow)
	put64(s[l.uctHeader:], uint64(p.UCTHeader))
	put(s[l.sendType:], uint32(p.SendType))
	put(s[l.recvType:], uint32(p.RecvType))
	put64(s[l.ucpHeader:], uint64(p.UCPHeader))
	put(s[l.testID:], uint32(id))
	if r == Release122 {
		copy(s[devices122:], noDevices122)
		put(s[deviceLevel122:], uint32(p.Accelerated.Level))
		put(s[channelMode122:], uint32(p.Accelerated.Channels))
		put64(s[channelSeed122:], p.Accelerated.Seed)
		put(s[deviceThreads122:], 1)
		put(s[deviceBlocks122:], p.Accelerated.Blocks)
		put(s[deviceFCWindow122:], p.Accelerated.Window)
	}

	for _, size := range p.Sizes {
		b = binary.LittleEndian.AppendUint64(b, uint64(size))
	}
	return b
}

// putName writes a NUL-terminated name to dst, truncated to fit.
func putName(dst []byte, name string) { copy(dst[:len(dst)-1], name) }

// DetectRelease detects a client's release from the first Release113.ParamsLen() bytes. At the
// offset of the device's name in 1.13, 1.22 has numbers that begin with a zero byte.
func DetectRelease(head []byte) (Release, error) {
	if len(head) < layouts[Release113].size {
		return 0, fmt.Errorf("%d bytes of parameters: %w", len(head), ucs.ErrMessageTruncated)
	}
	l := &layouts[Release113]
	if name := name(head[l.device : l.device+deviceLen]); name != "" && printable(name) {
		return Release113, nil
	}
	send, recv := accelerators(head)
	if max(send, recv) > 0 && max(send, recv) <= noMemory {
		return Release122, nil
	}
	return 0, fmt.Errorf("the client's protocol is of neither release 1.13 nor 1.22: %w", ucs.ErrInvalidParam)
}

// accelerators returns the memory types of the accelerators that send and receive.
func accelerators(s []byte) (send, recv uint32) {
	return binary.LittleEndian.Uint32(s[devices122:]), binary.LittleEndian.Uint32(s[devices122+8:])
}

// checkNoAccelerator refuses a test that uses an accelerator.
func checkNoAccelerator(s []byte) error {
	send, recv := accelerators(s)
	for _, device := range []uint32{send, recv} {
		if device == noMemory {
			continue
		}
		t, ok := ucs.MemoryTypeFromWire(uint8(min(device, 255)))
		if !ok {
			return invalid("accelerator with unknown memory type %d", device)
		}
		return fmt.Errorf("the client wants operations started by an accelerator, %v: %w", t, ucs.ErrUnsupported)
	}
	return nil
}

// ParseParams reads the parameter structure of release r, exactly r.ParamsLen() bytes, and returns
// the number of message sizes that follow it. ParseSizes reads the sizes; until then the result has
// none.
func ParseParams(s []byte, r Release) (p Params, sizes int, err error) {
	l := &layouts[r]
	if len(s) != l.size {
		return p, 0, fmt.Errorf("%d bytes of parameters, need %d: %w", len(s), l.size, ucs.ErrMessageTruncated)
	}
	u32 := func(off int) uint32 { return binary.LittleEndian.Uint32(s[off:]) }
	u64 := func(off int) uint64 { return binary.LittleEndian.Uint64(s[off:]) }
	float := func(off int) float64 { return math.Float64frombits(u64(off)) }
	length := func(what string, off int) int {
		n := u64(off)
		if n > MaxMessage && err == nil {
			err = invalid("%s of %d bytes, need at most %d", what, n, MaxMessage)
		}
		return int(n)
	}
	mem := func(off int) ucs.MemoryType {
		t, ok := ucs.MemoryTypeFromWire(uint8(min(u32(off), 255)))
		if !ok && err == nil {
			err = invalid("memory type %d", u32(off))
		}
		return t
	}
	below := func(what string, off int, limit uint32) uint32 {
		n := u32(off)
		if n >= limit && err == nil {
			err = invalid("%s %d", what, n)
		}
		return n
	}

	p = Params{
		ThreadMode:  ucs.ThreadMode(below("thread mode", 12, uint32(ucs.ThreadModeMulti)+1)),
		Threads:     u32(16),
		Async:       AsyncMode(below("async mode", 20, uint32(asyncLast))),
		WaitMode:    WaitMode(below("wait mode", 24, uint32(waitLast))),
		SendMem:     mem(28),
		RecvMem:     mem(32),
		Flags:       Flags(u32(l.flags)),
		Stride:      length("stride", l.stride),
		Window:      u32(l.window),
		WarmupIters: u64(l.warmupIters),
		WarmupTime:  float(l.warmupTime),
		Iters:       u64(l.iters),
		MaxTime:     float(l.maxTime),
		Interval:    float(l.interval),
		Percentile:  float(l.percentile),
		Device:      name(s[l.device : l.device+deviceLen]),
		Transport:   name(s[l.transport : l.transport+transportLen]),
		Layout:      Layout(below("data layout", l.layout, uint32(layoutLast))),
		FCWindow:    u32(l.fcWindow),
		UCTHeader:   length("header", l.uctHeader),
		SendType:    Datatype(below("datatype", l.sendType, uint32(datatypeLast))),
		RecvType:    Datatype(below("datatype", l.recvType, uint32(datatypeLast))),
		UCPHeader:   length("header", l.ucpHeader),
	}
	if err != nil {
		return Params{}, 0, err
	}
	if !printable(p.Device) || !printable(p.Transport) {
		return Params{}, 0, invalid("device %q, transport %q", p.Device, p.Transport)
	}
	if p.Test, err = parseTest(API(u32(0)), Command(u32(4)), Type(u32(8)), int32(u32(l.testID)), r); err != nil {
		return Params{}, 0, err
	}
	if r == Release122 {
		if err := checkNoAccelerator(s); err != nil {
			return Params{}, 0, err
		}
		if u32(daemonMode122) != 0 {
			return Params{}, 0, fmt.Errorf("the client wants a daemon to carry out its operations: %w", ucs.ErrUnsupported)
		}
		p.Accelerated = Accelerated{
			Level:    CooperationLevel(u32(deviceLevel122)),
			Channels: ChannelMode(u32(channelMode122)),
			Seed:     u64(channelSeed122),
			Blocks:   u32(deviceBlocks122),
			Window:   u32(deviceFCWindow122),
		}
	}
	n := u64(l.sizeCount)
	if n < 1 || n > MaxSizes {
		return Params{}, 0, invalid("%d message parts, need 1 to %d", n, MaxSizes)
	}
	return p, int(n), nil
}

// parseTest returns the test that the client requests. The id only selects between tests whose
// other fields are equal; otherwise it is not trusted.
func parseTest(a API, c Command, typ Type, id int32, r Release) (*Test, error) {
	if a == apiLast && c == cmdLast && typ == typeLast && id == noTest {
		return nil, nil
	}
	if t := testByID(id, r); t != nil && t.API == a && t.Command == c && t.Type == typ {
		return t, nil
	}
	if t := testLike(a, c, typ); t != nil {
		return t, nil
	}
	return nil, invalid("no test has API %d, command %d and type %d", uint32(a), uint32(c), uint32(typ))
}

// ParseSizes reads the message sizes that follow the structure and checks the
// parameters as a whole.
func (p *Params) ParseSizes(b []byte) error {
	if len(b)%8 != 0 || len(b) > 8*MaxSizes {
		return invalid("%d bytes of message sizes", len(b))
	}
	p.Sizes = make([]int, 0, len(b)/8)
	for ; len(b) > 0; b = b[8:] {
		n := binary.LittleEndian.Uint64(b)
		if n > MaxMessage {
			return invalid("message part of %d bytes, need at most %d", n, MaxMessage)
		}
		p.Sizes = append(p.Sizes, int(n))
	}
	return p.Validate()
}

// name reads a NUL-terminated name.
func name(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
