//go:build linux

package uverbs

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Call builds a request. Its methods check their arguments against the table; Do returns the first
// mistake. One goroutine may use a Call until it calls Do, which recycles the Call.
type Call struct {
	spec  *abi.MethodSpec
	name  string
	attrs []attr
	err   error

	room   [4]attr // first storage of attrs, enough for most calls
	memory Frame   // frame of the last request
	pinner runtime.Pinner
}

// calls recycles Calls, so that the registration of memory, which may be needed for every message,
// does not allocate.
var calls = sync.Pool{New: func() any { return new(Call) }}

// over returns the call to the pool.
func (c *Call) over() {
	clear(c.attrs)
	c.spec, c.name, c.attrs, c.err = nil, "", nil, nil
	if len(c.memory.words) > maxKept {
		c.memory.words = nil
	}
	calls.Put(c)
}

// maxKept is the largest size, in words, of a frame that is kept for another call.
const maxKept = 128

// attr is an attribute of a Call: data for the kernel, or the buffer for data from the kernel.
type attr struct {
	spec  *abi.AttrSpec
	bytes []byte
	value uint64
	out   *uint32 // receives a new handle or descriptor
}

// outside returns the number of bytes that the data of an attribute takes behind the attributes. Up
// to 8 bytes for the kernel are stored in the attribute itself.
func (a *attr) outside() int {
	if n := len(a.bytes); n > 8 || a.spec.Kind == abi.Out {
		return (n + 7) &^ 7
	}
	return 0
}

// NewCall begins a call of a method of the table.
func NewCall(object, method uint16) *Call {
	c := calls.Get().(*Call)
	c.attrs = c.room[:0]
	if c.spec = abi.Lookup(object, method); c.spec == nil {
		c.name = fmt.Sprintf("object %d method %d", object, method)
		c.err = fmt.Errorf("uverbs: %s is not in the table: %w", c.name, ucs.ErrInvalidParam)
		return c
	}
	c.name = c.spec.Name
	return c
}

// Invoke begins a command of the method INVOKE_WRITE. in and out are the bytes of the command's
// structs; out is nil if the command has none.
func Invoke(command uint32, in, out []byte) *Call {
	c := NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
	spec := abi.LookupCommand(command)
	if spec == nil {
		c.fail(abi.UVERBS_ATTR_WRITE_CMD, fmt.Sprintf("command %#x is not in the table", command))
		return c
	}
	c.name = spec.Name
	if len(in) != int(spec.In.Size()) || (out == nil) != (spec.Out == nil) || out != nil && len(out) != int(spec.Out.Size()) {
		c.fail(abi.UVERBS_ATTR_CORE_IN, fmt.Sprintf("wrong struct sizes: %d bytes in, %d bytes out", len(in), len(out)))
		return c
	}
	c.In(abi.UVERBS_ATTR_CORE_IN, in)
	if out != nil {
		c.Out(abi.UVERBS_ATTR_CORE_OUT, out)
	}
	return c.Const(abi.UVERBS_ATTR_WRITE_CMD, uint64(command))
}

func (c *Call) fail(id uint16, why string) {
	if c.err == nil {
		c.err = fmt.Errorf("uverbs: %s, attribute %#x: %s: %w", c.name, id, why, ucs.ErrInvalidParam)
	}
}

// add appends an attribute if the table has it with this kind and size.
func (c *Call) add(id uint16, kind abi.Kind, a attr) *Call {
	if c.err != nil {
		return c
	}
	a.spec = c.spec.Attr(id)
	switch {
	case a.spec == nil:
		c.fail(id, "not in the table")
	case a.spec.Kind != kind:
		c.fail(id, fmt.Sprintf("kind %v, not %v", a.spec.Kind, kind))
	case a.bytes != nil && (len(a.bytes) < a.spec.Min || len(a.bytes) > a.spec.Max || len(a.bytes) > math.MaxUint16):
		c.fail(id, fmt.Sprintf("%d bytes, not %d to %d", len(a.bytes), a.spec.Min, a.spec.Max))
	}
	for i := range c.attrs {
		if c.attrs[i].spec == a.spec {
			c.fail(id, "given twice")
		}
	}
	c.attrs = append(c.attrs, a)
	return c
}

// In adds bytes for the kernel.
func (c *Call) In(id uint16, b []byte) *Call {
	if b == nil {
		b = []byte{}
	}
	return c.add(id, abi.In, attr{bytes: b})
}

// U32 adds a number of 4 bytes for the kernel.
func (c *Call) U32(id uint16, v uint32) *Call {
	return c.In(id, binary.NativeEndian.AppendUint32(nil, v))
}

// U64 adds a number of 8 bytes for the kernel.
func (c *Call) U64(id uint16, v uint64) *Call {
	return c.In(id, binary.NativeEndian.AppendUint64(nil, v))
}

// Const adds a number of kind Const, which always has 8 bytes.
func (c *Call) Const(id uint16, v uint64) *Call { return c.add(id, abi.Const, attr{value: v}) }

// Handle adds the handle of an object.
func (c *Call) Handle(id uint16, h uint32) *Call {
	return c.add(id, abi.Handle, attr{value: uint64(h)})
}

// Destroy adds the object to destroy.
func (c *Call) Destroy(id uint16, h uint32) *Call {
	return c.add(id, abi.DestroyHandle, attr{value: uint64(h)})
}

// FD adds a descriptor.
func (c *Call) FD(id uint16, fd int) *Call {
	return c.add(id, abi.FD, attr{value: uint64(int64(fd))})
}

// Out makes Do write the kernel's answer to b on success.
func (c *Call) Out(id uint16, b []byte) *Call {
	if b == nil {
		b = []byte{}
	}
	return c.add(id, abi.Out, attr{bytes: b})
}

// New makes Do write the handle of the new object to h on success.
func (c *Call) New(id uint16, h *uint32) *Call { return c.add(id, abi.NewHandle, attr{out: h}) }

// NewFD makes Do write the new descriptor to fd on success.
func (c *Call) NewFD(id uint16, fd *uint32) *Call { return c.add(id, abi.NewFD, attr{out: fd}) }

// DriverIn adds driver-specific input, if there is any.
func (c *Call) DriverIn(b []byte) *Call {
	if len(b) == 0 {
		return c
	}
	return c.In(abi.UVERBS_ATTR_UHW_IN, b)
}

// DriverOut adds the buffer for the driver's answer, if there is one.
func (c *Call) DriverOut(b []byte) *Call {
	if len(b) == 0 {
		return c
	}
	return c.Out(abi.UVERBS_ATTR_UHW_OUT, b)
}

// frame writes the request into the frame of the call and returns the frame.
func (c *Call) frame(driver uint32) *Frame {
	size := headerSize + attrSize*len(c.attrs)
	off := size
	for i := range c.attrs {
		size += c.attrs[i].outside()
	}
	f := &c.memory
	f.reset(size)
	*f.Header() = abi.IoctlHdr{
		Length: uint16(off), ObjectId: c.spec.Object, MethodId: c.spec.ID,
		NumAttrs: uint16(len(c.attrs)), DriverId: driver,
	}
	attrs := f.Attrs(len(c.attrs))
	for i := range attrs {
		a, src := &attrs[i], &c.attrs[i]
		*a = abi.Attr{AttrId: src.spec.ID, Flags: abi.UVERBS_ATTR_F_MANDATORY, Data: src.value}
		switch src.spec.Kind {
		case abi.Const:
			a.Len = 8
		case abi.In:
			a.Len = uint16(len(src.bytes))
			if src.outside() == 0 {
				copy(inline(a), src.bytes)
				break
			}
			a.Data = f.Base() + uint64(off)
			copy(f.Bytes()[off:], src.bytes)
		case abi.Out:
			a.Len = uint16(len(src.bytes))
			a.Data = f.Base() + uint64(off)
		}
		off += src.outside()
	}
	return f
}

// Do makes the call for a device of the given driver, and recycles the Call. It returns the first
// mistake in the use of the Call, or an *Error if the kernel refuses the request.
func (c *Call) Do(file File, driver uint32) error {
	defer c.over()
	if c.err != nil {
		return c.err
	}
	for i := range c.spec.Attrs {
		if s := &c.spec.Attrs[i]; s.Mandatory && !c.has(s) {
			c.fail(s.ID, s.Name+" is missing")
			return c.err
		}
	}
	f := c.frame(driver)
	f.pin(&c.pinner)
	e := file.Ioctl(f)
	c.pinner.Unpin()
	if e != 0 {
		return c.error(file, e)
	}
	at := headerSize + attrSize*len(c.attrs)
	for i, a := range f.Attrs(len(c.attrs)) {
		src := &c.attrs[i]
		switch src.spec.Kind {
		case abi.NewHandle, abi.NewFD:
			*src.out = uint32(a.Data)
		case abi.Out:
			copy(src.bytes, f.Bytes()[at:])
		}
		at += src.outside()
	}
	return nil
}

func (c *Call) has(s *abi.AttrSpec) bool {
	for i := range c.attrs {
		if c.attrs[i].spec == s {
			return true
		}
	}
	return false
}

// error returns the error of a failed call.
func (c *Call) error(file File, e syscall.Errno) error {
	err := &Error{Device: file.Name(), Call: c.name, Errno: e}
	if e == syscall.EPROTONOSUPPORT || e == syscall.ENOTTY {
		err.Since = c.spec.Since
	}
	if e == syscall.EIO { // every call fails so when the device is gone
		err.Hint = "the device was removed or has failed; reopen it when it is available again"
	}
	if e == syscall.ENOENT {
		err.Attr = c.onlyHandle()
	}
	return err
}

// onlyHandle returns the name of the attribute with an object if there is exactly one, because
// ENOENT then refers to this object. With several the kernel does not report which one it means.
func (c *Call) onlyHandle() string {
	name := ""
	for i := range c.attrs {
		switch s := c.attrs[i].spec; {
		case s.Kind != abi.Handle && s.Kind != abi.DestroyHandle:
		case name != "":
			return ""
		default:
			name = s.Name
		}
	}
	return name
}
