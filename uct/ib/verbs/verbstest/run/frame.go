//go:build linux && (amd64 || arm64)

package run

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Copies of RDMA_VERBS_IOCTL requests between two memories: a program's, which has header and
// attributes in one block and the data that attributes point to anywhere, and a uverbs.Frame, which
// has all in one block. Attributes that the table of package abi does not know are not copied.

// memory is the memory of a program.
type memory interface {
	Read(addr uint64, b []byte) bool
	Write(addr uint64, b []byte) bool
}

// request is a copy of a program's RDMA_VERBS_IOCTL request.
type request struct {
	frame *uverbs.Frame
	addr  uint64 // address of the request in the program
	spec  *abi.MethodSpec
	parts []part
}

// part is an attribute and the data that it points to.
type part struct {
	spec *abi.AttrSpec
	raw  *abi.Attr // the attribute in the frame
	at   int       // offset of the attribute in the request
	addr uint64    // address of the data in the program; 0 for none
	b    []byte    // the data in the frame
}

const (
	headerSize = 24
	attrSize   = 16
	maxLength  = 4096 // bytes of header and attributes; ib_uverbs_ioctl, uverbs_ioctl.c
)

// fetch copies a request out of a program's memory. It fails like the kernel if memory is not
// mapped.
func fetch(m memory, addr uint64) (*request, syscall.Errno) {
	var header [headerSize]byte
	if !m.Read(addr, header[:]) {
		return nil, unix.EFAULT
	}
	length := int(binary.NativeEndian.Uint16(header[:]))
	count := int(binary.NativeEndian.Uint16(header[6:]))
	if length > maxLength || length != headerSize+attrSize*count {
		return nil, unix.EINVAL
	}
	text := make([]byte, length)
	if !m.Read(addr, text) {
		return nil, unix.EFAULT
	}
	copy(text, header[:]) // the program may have changed the header since the first read
	r := &request{addr: addr, spec: abi.Lookup(binary.NativeEndian.Uint16(text[2:]), binary.NativeEndian.Uint16(text[4:]))}
	size := length
	for i := range count {
		a := text[headerSize+attrSize*i:]
		spec := r.attr(binary.NativeEndian.Uint16(a))
		if spec == nil || r.has(spec) {
			continue // verbstest refuses or ignores it
		}
		p := part{spec: spec, at: headerSize + attrSize*i}
		n := int(binary.NativeEndian.Uint16(a[2:]))
		if (spec.Kind == abi.Out || spec.Kind == abi.In && n > 8) && n <= spec.Max {
			p.addr = u64(a[8:])
			p.b = make([]byte, n)
			if !m.Read(p.addr, p.b) {
				return nil, unix.EFAULT
			}
			size += (n + 7) &^ 7
		}
		r.parts = append(r.parts, p)
	}
	r.lay(text, count, size)
	return r, 0
}

// lay puts the copied request into a frame.
func (r *request) lay(text []byte, count, size int) {
	r.frame = uverbs.NewFrame(size)
	b := r.frame.Bytes()
	off := copy(b, text)
	attrs := r.frame.Attrs(count)
	for i := range r.parts {
		p := &r.parts[i]
		p.raw = &attrs[(p.at-headerSize)/attrSize]
		if p.b == nil {
			continue
		}
		p.raw.Data = r.frame.Base() + uint64(off)
		n := copy(b[off:], p.b)
		p.b = b[off : off+n]
		off += (n + 7) &^ 7
	}
}

func (r *request) attr(id uint16) *abi.AttrSpec {
	if r.spec == nil {
		return nil
	}
	return r.spec.Attr(id)
}

func (r *request) has(spec *abi.AttrSpec) bool {
	for i := range r.parts {
		if r.parts[i].spec == spec {
			return true
		}
	}
	return false
}

// take replaces the program's descriptors in the request by those of this process, which the
// function ours finds.
func (r *request) take(ours func(fd int) int) {
	for i := range r.parts {
		if p := &r.parts[i]; p.spec.Kind == abi.FD {
			p.raw.Data = uint64(int64(ours(int(int32(p.raw.Data)))))
		}
	}
}

// answer copies the answer back to the program. The function theirs duplicates new descriptors into
// the program.
func (r *request) answer(m memory, theirs func(fd int) (int, bool)) syscall.Errno {
	if fd := r.channel(); fd != nil {
		n, ok := theirs(int(binary.NativeEndian.Uint32(fd)))
		if !ok {
			return unix.EMFILE
		}
		binary.NativeEndian.PutUint32(fd, uint32(n))
	}
	for i := range r.parts {
		p := &r.parts[i]
		if !p.spec.Kind.FromKernel() {
			continue
		}
		if p.spec.Kind == abi.NewFD {
			n, ok := theirs(int(p.raw.Data))
			if !ok {
				return unix.EMFILE
			}
			p.raw.Data = uint64(n)
		}
		if !m.Write(p.addr, p.b) {
			return unix.EFAULT
		}
		if p.addr != 0 {
			p.raw.Data = p.addr
		}
		if !m.Write(r.addr+uint64(p.at), abi.Bytes(p.raw)) {
			return unix.EFAULT
		}
	}
	return 0
}

// channel returns the field for the descriptor in the answer to CREATE_COMP_CHANNEL, nil if the
// request is another command.
func (r *request) channel() []byte {
	const create = abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
	var out []byte
	command := ^uint64(0)
	for i := range r.parts {
		switch p := &r.parts[i]; {
		case r.spec.Name != "DEVICE.INVOKE_WRITE":
			return nil
		case p.spec.ID == abi.UVERBS_ATTR_WRITE_CMD:
			command = p.raw.Data
		case p.spec.ID == abi.UVERBS_ATTR_CORE_OUT:
			out = p.b
		}
	}
	if command != create || len(out) < 4 {
		return nil
	}
	return out[:4]
}

func u64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
