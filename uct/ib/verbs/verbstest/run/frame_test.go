//go:build linux && (amd64 || arm64)

package run

import (
	"encoding/binary"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// ram is the memory of a program, from address ramAt on.
type ram []byte

const ramAt = 0x10000

func (m ram) at(addr uint64, n int) []byte {
	if addr < ramAt || addr-ramAt > uint64(len(m)) || uint64(n) > uint64(len(m))-(addr-ramAt) {
		return nil
	}
	return m[addr-ramAt:][:n:n]
}

func (m ram) Read(addr uint64, b []byte) bool {
	return len(b) == 0 || copy(b, m.at(addr, len(b))) == len(b)
}
func (m ram) Write(addr uint64, b []byte) bool {
	return len(b) == 0 || copy(m.at(addr, len(b)), b) == len(b)
}

// put writes a request with attributes at the beginning.
func (m ram) put(object, method uint16, attrs ...abi.Attr) {
	copy(m, abi.Bytes(&abi.IoctlHdr{Length: uint16(headerSize + attrSize*len(attrs)), ObjectId: object, MethodId: method, NumAttrs: uint16(len(attrs)), DriverId: 14}))
	for i := range attrs {
		copy(m[headerSize+attrSize*i:], abi.Bytes(&attrs[i]))
	}
}

func (m ram) attr(i int) (a abi.Attr) {
	copy(abi.Bytes(&a), m[headerSize+attrSize*i:])
	return a
}

// TestFrame copies a request from a program and its answer back: the data of attributes, and
// descriptors.
func TestFrame(t *testing.T) {
	m := make(ram, 4096)
	const in, out = ramAt + 1000, ramAt + 2000
	m.put(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE,
		abi.Attr{AttrId: abi.UVERBS_ATTR_CREATE_CQ_HANDLE},
		abi.Attr{AttrId: abi.UVERBS_ATTR_CREATE_CQ_CQE, Len: 4, Data: 77},
		abi.Attr{AttrId: abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, Data: 5},
		abi.Attr{AttrId: abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, Len: 4, Data: out},
		abi.Attr{AttrId: abi.UVERBS_ATTR_UHW_IN, Len: 32, Data: in},
		abi.Attr{AttrId: 0x7777, Len: 3, Data: 9}) // an unknown attribute
	copy(m[1000:], "what the driver is told, 32 bytes")
	m[2003], m[2004] = 0xee, 0xff
	r, errno := fetch(m, ramAt)
	if errno != 0 {
		t.Fatal(errno)
	}
	r.take(func(fd int) int { return fd + 100 })
	p, errno := uverbs.Parse(r.frame)
	if errno != 0 {
		t.Fatal(errno)
	}
	if a := p.Attr(abi.UVERBS_ATTR_UHW_IN); string(a.Bytes) != "what the driver is told, 32 byte" {
		t.Errorf("%q", a.Bytes)
	}
	if a := p.Attr(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); a.Raw.Data != 105 {
		t.Errorf("descriptor %d", a.Raw.Data)
	}
	answer := p.Attr(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE)
	if answer.Bytes[3] != 0xee { // bytes without an answer stay unchanged
		t.Errorf("%x", answer.Bytes)
	}
	copy(answer.Bytes, []byte{1, 2, 3})
	answer.Raw.Flags |= abi.UVERBS_ATTR_F_VALID_OUTPUT
	p.Attr(abi.UVERBS_ATTR_CREATE_CQ_HANDLE).Raw.Data = 42
	if errno := r.answer(m, func(int) (int, bool) { t.Error("no descriptor"); return 0, false }); errno != 0 {
		t.Error(errno)
	}
	if got := m[2000:2005]; !slices.Equal(got, []byte{1, 2, 3, 0xee, 0xff}) {
		t.Errorf("%x", got)
	}
	if m.attr(0).Data != 42 || m.attr(1).Data != 77 || m.attr(2).Data != 5 || m.attr(3).Data != out || m.attr(3).Flags != abi.UVERBS_ATTR_F_VALID_OUTPUT || m.attr(4).Data != in {
		t.Errorf("%+v", []abi.Attr{m.attr(0), m.attr(1), m.attr(2), m.attr(3), m.attr(4)})
	}
}

// TestFrameDescriptors passes on descriptors that a method and a command have created.
func TestFrameDescriptors(t *testing.T) {
	m := make(ram, 4096)
	theirs := func(fd int) (int, bool) { return fd * 2, fd != 13 }
	m.put(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC, abi.Attr{AttrId: abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE})
	r, _ := fetch(m, ramAt)
	r.frame.Attrs(1)[0].Data = 21
	if errno := r.answer(m, theirs); errno != 0 || m.attr(0).Data != 42 {
		t.Errorf("%v, %d", errno, m.attr(0).Data)
	}
	if r.frame.Attrs(1)[0].Data = 13; r.answer(m, theirs) != unix.EMFILE {
		t.Error("a descriptor that could not be handed over")
	}
	m.put(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE,
		abi.Attr{AttrId: abi.UVERBS_ATTR_WRITE_CMD, Len: 8, Data: abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL},
		abi.Attr{AttrId: abi.UVERBS_ATTR_CORE_OUT, Len: 4, Data: ramAt + 512})
	r, _ = fetch(m, ramAt)
	binary.NativeEndian.PutUint32(r.parts[1].b, 8)
	if errno := r.answer(m, theirs); errno != 0 || binary.NativeEndian.Uint32(m[512:]) != 16 {
		t.Errorf("%v, %d", errno, m[512])
	}
}

// TestFrameRefused copies invalid requests.
func TestFrameRefused(t *testing.T) {
	cq := func(change func(m ram)) ram {
		m := make(ram, 4096)
		m.put(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.Attr{AttrId: abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, Len: 4, Data: ramAt + 4000})
		change(m)
		return m
	}
	for what, c := range map[string]struct {
		m    ram
		addr uint64
		want syscall.Errno
	}{
		"no memory":                {cq(func(ram) {}), 5, unix.EFAULT},
		"half a header":            {cq(func(ram) {}), ramAt + 4096 - 10, unix.EFAULT},
		"a length of nothing":      {cq(func(m ram) { m[0], m[1] = 0, 0 }), ramAt, unix.EINVAL},
		"more attributes than fit": {cq(func(m ram) { m[6] = 2 }), ramAt, unix.EINVAL},
		"more than a page": {cq(func(m ram) {
			*(*[2]byte)(m), m[6], m[7] = [2]byte{0x08, 0x10}, 0xff, 0
		}), ramAt, unix.EINVAL},
		"attributes that are not there": {cq(func(ram) {})[:30], ramAt, unix.EFAULT},
		"an answer to nowhere":          {cq(func(m ram) { m[headerSize+8+3] = 1 }), ramAt, unix.EFAULT},
	} {
		if _, errno := fetch(c.m, c.addr); errno != c.want {
			t.Errorf("%s: %v, want %v", what, errno, c.want)
		}
	}
}

// FuzzFrame copies arbitrary memory as a request.
func FuzzFrame(f *testing.F) {
	for i := range abi.Methods {
		m, s := make(ram, 1024), &abi.Methods[i]
		var attrs []abi.Attr
		for j := range s.Attrs {
			attrs = append(attrs, abi.Attr{AttrId: s.Attrs[j].ID, Len: uint16(s.Attrs[j].Min), Data: ramAt + 512})
		}
		m.put(s.Object, s.ID, attrs...)
		f.Add([]byte(m))
	}
	fuzztest.Run(f, func(t *testing.T, data []byte) {
		m := ram(slices.Clone(data))
		r, errno := fetch(m, ramAt)
		if errno != 0 {
			return
		}
		r.take(func(fd int) int { return fd })
		uverbs.Format(r.frame, false)
		p, errno := uverbs.Parse(r.frame)
		if errno == 0 {
			for _, a := range p.Attrs {
				if a.Spec.Kind == abi.Out {
					clear(a.Bytes)
				}
			}
			r.answer(m, func(fd int) (int, bool) { return fd, true })
		}
		if len(m) != len(data) {
			t.Error("memory has moved")
		}
	})
}
