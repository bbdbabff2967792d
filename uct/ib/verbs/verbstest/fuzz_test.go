//go:build linux

package verbstest

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// FuzzIoctl makes sequences of calls from the table with arbitrary data. The device must answer
// each with success or an errno of the framework, the printer must print each, and closing must
// leave nothing behind.
func FuzzIoctl(f *testing.F) {
	seed := func(methods ...byte) {
		var b []byte
		for _, m := range methods {
			b = append(b, m)
			b = append(b, make([]byte, 40)...)
		}
		f.Add(b)
	}
	for i := range abi.Methods {
		seed(byte(i))
		seed(3, 7, byte(i), byte(i))
	}
	for i := range abi.Commands {
		f.Add([]byte{3, 0, 0, byte(i), 1, 2, 3, 4, 5, 6, 7, 8})
	}
	fuzztest.Run(f, func(t *testing.T, data []byte) {
		ucttest.NoLeaks(t)
		k := New()
		if len(data)%2 == 1 { // one of two devices, which work in steps
			n := NewFabric()
			n.Add(Config{})
			k = n.Add(Config{Ports: []Port{{InfiniBand: true}, {}}, Limits: Limits{MemLock: 1 << 16, QPs: 3}, LastWQE: true})
			n.SetWork(InStep)
		}
		file := k.open()
		if len(data)%3 == 2 { // a driver that accesses memory by its address, and so any memory
			file.Close()
			k = NewFabric().Add(Config{MLX5: &MLX5{StaticUARs: len(data)%2 == 1}})
			file = k.openIn(Remote(os.Getpid()))
		}
		in := &input{data}
		for n := 0; n < 64 && len(in.b) > 0; n++ {
			frame := in.frame()
			frame.Header().DriverId, _ = k.kind.driver()
			uverbs.Format(frame, false)
			file.Ioctl(frame)
			uverbs.Format(frame, true)
			file.Write(in.take(int(in.byte() % 48)))
			k.Progress()
		}
		for _, m := range file.eventPipes {
			syscall.Close(m.user)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		if k.Objects() != 0 {
			t.Errorf("%d objects left", k.Objects())
		}
		if _, errno := file.Write(nil); errno == 0 || !errors.Is(file.Close(), syscall.EBADF) {
			t.Error("a closed device answers")
		}
	})
}

// input returns the bytes of a fuzz run, then zeros.
type input struct{ b []byte }

func (in *input) take(n int) []byte {
	out := make([]byte, n)
	in.b = in.b[copy(out, in.b):]
	return out
}

func (in *input) byte() byte { return in.take(1)[0] }

// frame builds a request that is mostly valid.
func (in *input) frame() *uverbs.Frame {
	const header, attr = 24, 16
	m := &abi.Methods[int(in.byte())%len(abi.Methods)]
	n := len(m.Attrs)
	ids := make([]*abi.AttrSpec, 0, n+2)
	skip := binary.NativeEndian.Uint16(in.take(2))
	for i := range m.Attrs {
		if skip>>i&1 == 0 {
			ids = append(ids, &m.Attrs[i])
		}
	}
	if m.UHW {
		ids = append(ids, m.Attr(abi.UVERBS_ATTR_UHW_OUT))
	}
	const room = 512
	f := uverbs.NewFrame(header + (attr+room)*len(ids))
	*f.Header() = abi.IoctlHdr{Length: uint16(header + attr*len(ids)), ObjectId: m.Object, MethodId: m.ID, NumAttrs: uint16(len(ids)), DriverId: Driver}
	attrs := f.Attrs(len(ids))
	var command *abi.CommandSpec
	if m.Name == "DEVICE.INVOKE_WRITE" {
		command = &abi.Commands[int(in.byte())%len(abi.Commands)]
	}
	for i, spec := range ids {
		a := &attrs[i]
		a.AttrId, a.Flags = spec.ID, abi.UVERBS_ATTR_F_MANDATORY
		size := min(spec.Max, room)
		if command != nil && spec.ID == abi.UVERBS_ATTR_CORE_IN {
			size = int(command.In.Size())
		}
		off := header + attr*len(ids) + room*i
		switch spec.Kind {
		case abi.In:
			data := in.take(size)
			a.Len = uint16(size)
			if size <= 8 {
				copy(f.Bytes()[header+attr*i+8:], data)
				break
			}
			copy(f.Bytes()[off:], data)
			a.Data = f.Base() + uint64(off)
		case abi.Out:
			a.Len = uint16(size)
			a.Data = f.Base() + uint64(off)
		case abi.Const:
			a.Len = 8
			a.Data = uint64(in.byte())
			if command != nil {
				a.Data = uint64(command.ID)
			}
		default:
			a.Data = uint64(in.byte())
		}
	}
	if in.byte() == 255 { // sometimes invalid
		b := f.Bytes()
		i := int(binary.NativeEndian.Uint16(in.take(2))) % len(b)
		b[i] ^= in.byte()
	}
	return f
}
