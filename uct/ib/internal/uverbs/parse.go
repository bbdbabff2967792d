//go:build linux

package uverbs

import (
	"math/bits"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Request is a frame as the kernel reads it.
type Request struct {
	Spec   *abi.MethodSpec
	Driver uint32
	Attrs  []RequestAttr
}

// RequestAttr is one attribute of a Request.
type RequestAttr struct {
	Spec  *abi.AttrSpec
	Raw   *abi.Attr // the attribute in the frame
	Bytes []byte    // data of the kinds In, Out and Const, in the frame
}

// Attr returns the attribute with a number, nil if the request does not have it.
func (r *Request) Attr(id uint16) *RequestAttr {
	for i := range r.Attrs {
		if r.Attrs[i].Spec.ID == id {
			return &r.Attrs[i]
		}
	}
	return nil
}

// Parse reads a request as the kernel does (uverbs_ioctl.c), with its errors.
// Pointers must be to the frame itself. Mandatory attributes may be missing: see
// Missing.
func Parse(f *Frame) (*Request, syscall.Errno) {
	h := f.Header()
	if h == nil {
		return nil, syscall.EFAULT
	}
	if int(h.Length) != headerSize+attrSize*int(h.NumAttrs) || h.Reserved1 != 0 || h.Reserved2 != 0 {
		return nil, syscall.EINVAL
	}
	attrs := f.Attrs(int(h.NumAttrs))
	if len(attrs) != int(h.NumAttrs) {
		return nil, syscall.EFAULT
	}
	r := &Request{Spec: abi.Lookup(h.ObjectId, h.MethodId), Driver: h.DriverId}
	if r.Spec == nil {
		return nil, syscall.EPROTONOSUPPORT
	}
	for i := range attrs {
		a := &attrs[i]
		spec := r.Spec.Attr(a.AttrId)
		if spec == nil {
			if a.Flags&abi.UVERBS_ATTR_F_MANDATORY != 0 {
				return nil, syscall.EPROTONOSUPPORT
			}
			continue
		}
		if r.Attr(a.AttrId) != nil || a.AttrData != 0 ||
			a.Flags&^(abi.UVERBS_ATTR_F_MANDATORY|abi.UVERBS_ATTR_F_VALID_OUTPUT) != 0 {
			return nil, syscall.EINVAL
		}
		b, errno := f.resolve(spec, a)
		if errno != 0 {
			return nil, errno
		}
		r.Attrs = append(r.Attrs, RequestAttr{Spec: spec, Raw: a, Bytes: b})
	}
	return r, 0
}

// resolve returns the bytes of an attribute, or the errno with which the kernel refuses it.
func (f *Frame) resolve(spec *abi.AttrSpec, a *abi.Attr) ([]byte, syscall.Errno) {
	switch spec.Kind {
	case abi.Const:
		if a.Len != 8 {
			return nil, syscall.EINVAL
		}
		return inline(a), 0
	case abi.In, abi.Out:
		if int(a.Len) < spec.Min || int(a.Len) > spec.Max {
			return nil, syscall.EINVAL
		}
		if spec.Kind == abi.In && a.Len <= 8 {
			return inline(a)[:a.Len], 0
		}
		return f.at(a.Data, int(a.Len))
	}
	if a.Len != 0 {
		return nil, syscall.EINVAL
	}
	if spec.Kind != abi.FD && a.Data>>32 != 0 && !spec.Kind.FromKernel() {
		return nil, syscall.EINVAL // handles have 32 bits
	}
	return nil, 0
}

// at returns n bytes of the frame at an address.
func (f *Frame) at(addr uint64, n int) ([]byte, syscall.Errno) {
	b := f.Bytes()
	off, borrow := bits.Sub64(addr, f.Base(), 0)
	if borrow != 0 || off > uint64(len(b)) || uint64(n) > uint64(len(b))-off {
		return nil, syscall.EFAULT
	}
	return b[off : off+uint64(n) : off+uint64(n)], 0
}

// Missing returns a mandatory attribute that the request does not have, nil if there is none.
func (r *Request) Missing() *abi.AttrSpec {
	for i := range r.Spec.Attrs {
		if s := &r.Spec.Attrs[i]; s.Mandatory && r.Attr(s.ID) == nil {
			return s
		}
	}
	return nil
}
