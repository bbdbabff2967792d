//go:build linux

package ib

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// dmabufs is a device whose kernel supports dma-bufs; driver says whether its driver does too. It
// keeps one region at a time.
type dmabufs struct {
	uverbs.File
	driver bool
	asked  []uint64 // descriptor, offset, length, address and access of the registered region
}

const dmabufHandle = 0x7777

func (d *dmabufs) Ioctl(f *uverbs.Frame) syscall.Errno {
	r, errno := uverbs.Parse(f)
	if errno != 0 {
		return d.File.Ioctl(f)
	}
	switch r.Spec {
	case abi.Lookup(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR):
		if r.Missing() != nil {
			return syscall.EINVAL
		}
		fd := r.Attr(abi.UVERBS_ATTR_REG_DMABUF_MR_FD).Raw.Data
		switch {
		case !d.driver:
			return syscall.EOPNOTSUPP
		case int32(fd) < 0:
			return syscall.EBADF
		}
		d.asked = []uint64{fd}
		for _, a := range []uint16{abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS} {
			d.asked = append(d.asked, r.Attr(a).Raw.Data)
		}
		r.Attr(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE).Raw.Data = dmabufHandle
		r.Attr(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY).Bytes[0] = 0x42
		return 0
	case abi.Lookup(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY):
		if r.Attr(abi.UVERBS_ATTR_DESTROY_MR_HANDLE).Raw.Data == dmabufHandle && d.asked != nil {
			d.asked = nil
			return 0
		}
	}
	return d.File.Ioctl(f)
}

// dmabufDomain opens a domain of the device f.
func dmabufDomain(t *testing.T, f uverbs.File) *Domain {
	c := NewComponent("ib", oneFile{f})
	md, err := c.OpenMD("rxe0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := md.Close(); err != nil {
			t.Error(err)
		}
	})
	return md.(*Domain)
}

type oneFile struct{ f uverbs.File }

func (o oneFile) Devices() ([]verbs.Device, error)           { return []verbs.Device{{Name: "rxe0"}}, nil }
func (o oneFile) Open(*verbs.Device) (*verbs.Context, error) { return verbs.NewContext(o.f, 0) }
func (o oneFile) Read(*verbs.Device)                         {}

// TestDMABuf checks that a dma-buf is registered with the given range and access if the kernel and
// the driver support it, and that its remote key is the one of that registration.
func TestDMABuf(t *testing.T) {
	f := &dmabufs{File: verbstest.New().Open(), driver: true}
	d := dmabufDomain(t, f)
	if !d.Attr().Flags.Has(uct.MDFlagRegDmabuf) {
		t.Error("not announced")
	}
	m, err := d.RegisterDMABuf(5, 4096, 8192, 1<<40, uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint64{5, 4096, 8192, 1 << 40, uint64(verbs.AccessLocalWrite | verbs.AccessRemoteWrite)}; len(f.asked) != 5 || [5]uint64(f.asked) != [5]uint64(want) {
		t.Errorf("registered %v, want %v", f.asked, want)
	}
	key, err := d.AppendKey(nil, m)
	if err != nil || key[0] != 0x42 || m.Bytes() != nil {
		t.Errorf("key %x, %v, memory %v", key, err, m.Bytes())
	}
	if _, err := d.Gather(nil, []uct.IOV{{Data: make([]byte, 8), Mem: m}}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("memory of this process is said to be in it: %v", err)
	}
	if err := d.Close(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("closed with a registration: %v", err)
	}
	if err := d.Deregister(m); err != nil || f.asked != nil {
		t.Errorf("%v, %v is left", err, f.asked)
	}
	if _, err := d.RegisterDMABuf(5, 0, 0, 0, uct.AccessRemotePut); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("no bytes: %v", err)
	}
	if _, err := d.RegisterDMABuf(-1, 0, 4096, 0, uct.AccessRemotePut); !errors.Is(err, syscall.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}

// TestNoDMABuf checks that the error says whether the kernel or the driver lacks support.
func TestNoDMABuf(t *testing.T) {
	for says, f := range map[string]uverbs.File{
		"needs Linux 5.12":                    verbstest.New().Open(),
		"the driver cannot register dma-bufs": &dmabufs{File: verbstest.New().Open()},
	} {
		d := dmabufDomain(t, f)
		if d.Attr().Flags.Has(uct.MDFlagRegDmabuf) {
			t.Error("announced")
		}
		_, err := d.RegisterDMABuf(5, 0, 4096, 0, uct.AccessRemotePut)
		if !errors.Is(err, ucs.ErrUnsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
