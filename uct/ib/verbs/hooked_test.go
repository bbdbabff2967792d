//go:build linux

package verbs_test

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// hooked is a device whose calls a test can watch and refuse.
type hooked struct {
	uverbs.File
	refuse   bool   // fail every call from now on
	calling  func() // called before each call
	called   func(command uint32)
	unmapped func()
}

func (h *hooked) Ioctl(f *uverbs.Frame) syscall.Errno {
	if h.refuse {
		return syscall.ENOMEM
	}
	if h.calling != nil {
		h.calling()
	}
	e := h.File.Ioctl(f)
	if r, errno := uverbs.Parse(f); errno == 0 && h.called != nil {
		if a := r.Attr(abi.UVERBS_ATTR_WRITE_CMD); a != nil && r.Spec == abi.Lookup(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE) {
			h.called(uint32(binary.NativeEndian.Uint64(a.Bytes)))
		}
	}
	return e
}

func (h *hooked) Munmap(b []byte) syscall.Errno {
	e := h.File.Munmap(b)
	if h.unmapped != nil {
		h.unmapped()
	}
	return e
}

// hookedRig returns a fakeRig whose contexts opened from now on are hooked.
func hookedRig(t *testing.T) (*rig, *hooked) {
	t.Helper()
	r, h := fakeRig(t), &hooked{}
	r.open = func(t *testing.T) *verbs.Context {
		t.Helper()
		h.File = r.kernel.Open()
		c := must(verbs.NewContext(h, 2))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	return r, h
}

// TestPinnedLongest checks that memory stays pinned until the last queue is unmapped if no object
// can be closed. As long as a queue is mapped, the kernel keeps the device open, and its queue
// pairs may write.
func TestPinnedLongest(t *testing.T) {
	r, h := hookedRig(t)
	s := r.newSide(t, verbs.RC)
	mrs := []*verbs.MR{s.mr}
	for range 20 {
		mrs = append(mrs, must(s.pd.RegMR(make([]byte, 10), fullAccess))(t))
		must(s.ctx.CreateCQ(4, nil, 0))(t)
		must(s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}))(t)
	}
	unmapped, early := 0, 0
	h.unmapped = func() {
		unmapped++
		for _, m := range mrs {
			if m.Bytes() == nil {
				early++
			}
		}
	}
	h.refuse = true
	wantErr(t, s.ctx.Close(), syscall.ENOMEM, "closing what cannot be closed")
	if unmapped != 43 || early != 0 || mrs[0].Bytes() != nil {
		t.Errorf("%d queues unmapped; %d times memory was not pinned any more", unmapped, early)
	}
}

// TestArmedLate checks that an event that was read before ReqNotify returned is not waited for
// again.
func TestArmedLate(t *testing.T) {
	r, h := hookedRig(t)
	s := r.newSide(t, verbs.RC)
	s.up(t, s)
	ctx := timeout(t)
	write := func(id uint64) {
		s.send(t, verbs.SendWR{ID: id, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: s.at(0, 8), RemoteAddr: s.mr.Addr() + 8, RKey: s.mr.RKey()})
	}
	arms := 0
	h.called = func(command uint32) {
		if command != abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ {
			return
		}
		if arms++; arms > 2 {
			return
		}
		write(uint64(arms))
		if arms == 1 {
			must(s.cq.Channel().GetEvent(ctx))(t)
			s.done(t, 1, verbs.WCRDMAWrite)
		}
	}
	check(t, s.cq.ReqNotify(false))
	wc := make([]verbs.WC, 1)
	if n, err := s.cq.Wait(ctx, wc); n != 1 || err != nil || wc[0].ID != 2 {
		t.Errorf("%d completions, %+v: %v", n, wc[0], err)
	}
}
