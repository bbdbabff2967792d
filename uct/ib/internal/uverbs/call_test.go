//go:build linux

package uverbs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// fake is a file whose answers a test supplies.
type fake struct {
	answer func(f *Frame) syscall.Errno
	calls  int
}

func (f *fake) Name() string                             { return "uverbs9" }
func (f *fake) Write(b []byte) (int, syscall.Errno)      { return 0, syscall.EACCES }
func (f *fake) Mmap(uint64, int) ([]byte, syscall.Errno) { return nil, syscall.EINVAL }
func (f *fake) Munmap([]byte) syscall.Errno              { return 0 }
func (f *fake) Close() error                             { return nil }
func (f *fake) Ioctl(frame *Frame) (errno syscall.Errno) {
	f.calls++
	return f.answer(frame)
}

// TestGolden rebuilds requests of ibv_rc_pingpong of rdma-core 44 on Linux 6.1 with rdma_rxe,
// recorded by a shim on ioctl: header, attributes, and the data that these point to.
func TestGolden(t *testing.T) {
	req := abi.ModifyQp{
		Dest:     abi.QpDest{Dgid: [16]byte{10: 0xff, 0xff, 10, 9, 0, 2}, SgidIndex: 1, HopLimit: 1, IsGlobal: 1, PortNum: 1},
		QpHandle: 3, AttrMask: 0x129181, RqPsn: 0xe7afe3, DestQpNum: 0x11, QpState: 2, PathMtu: 3, MaxDestRdAtomic: 1, MinRnrTimer: 12,
	}
	const modify = "00000000000000000000ffff0a090002" + "00000000000000000101000000000101" +
		"0000000000000000000000000000000000000000000000000000000000000000" +
		"03000000" + "81911200" + "00000000" + "e3afe700" + "00000000" + "11000000" + "00000000" + "00000000" +
		"02000300" + "0000010c" + "0000000000000000"
	for name, c := range map[string]struct {
		call  *Call
		attrs []string // id len flags 0 data
		out   []string // data by pointer
	}{
		"REQ_NOTIFY_CQ": {
			call:  Invoke(abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, abi.Bytes(&abi.ReqNotifyCq{CqHandle: 2}), nil),
			attrs: []string{"0000080001000000" + "0200000000000000", "0200080001000000" + "1700000000000000"},
		},
		"MODIFY_QP": {
			call:  Invoke(abi.IB_USER_VERBS_CMD_MODIFY_QP, abi.Bytes(&req), nil),
			attrs: []string{"0000700001000000" + "*", "0200080001000000" + "1a00000000000000"},
			out:   []string{modify},
		},
		"ASYNC_EVENT.ALLOC": {
			call:  NewCall(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC).NewFD(0, new(uint32)),
			attrs: []string{"0000000001000000" + "0000000000000000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
				t.Skip("captured on a little-endian machine")
			}
			f := &fake{answer: func(f *Frame) syscall.Errno {
				h := f.Header()
				if int(h.Length) != 24+16*len(c.attrs) || int(h.NumAttrs) != len(c.attrs) || h.DriverId != 14 || h.Reserved1 != 0 || h.Reserved2 != 0 {
					t.Errorf("header %+v", *h)
				}
				for i, want := range c.attrs {
					got := hex.EncodeToString(f.Bytes()[24+16*i : 40+16*i])
					if fixed, pointer := strings.CutSuffix(want, "*"); pointer {
						a := f.Attrs(i + 1)[i]
						off := a.Data - f.Base()
						data := hex.EncodeToString(f.Bytes()[off : off+uint64(a.Len)])
						if got[:16] != fixed || data != c.out[0] {
							t.Errorf("attribute %d: %s, %s\nwant %s, %s", i, got[:16], data, fixed, c.out[0])
						}
					} else if got != want {
						t.Errorf("attribute %d: %s, want %s", i, got, want)
					}
				}
				return 0
			}}
			if err := c.call.Do(f, 14); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAnswers checks that the data which the kernel returns is stored where the caller asked for
// it.
func TestAnswers(t *testing.T) {
	cap := abi.QpCap{MaxSendWr: 1, MaxRecvWr: 500}
	var handle uint32
	var resp abi.QpCap
	var num [4]byte
	uhw := make([]byte, 32)
	f := &fake{answer: func(f *Frame) syscall.Errno {
		r, errno := Parse(f)
		if errno != 0 || r.Missing() != nil {
			t.Fatalf("%v, missing %v", errno, r.Missing())
		}
		if !bytes.Equal(r.Attr(abi.UVERBS_ATTR_CREATE_QP_CAP).Bytes, abi.Bytes(&cap)) {
			t.Error("wrong capabilities")
		}
		r.Attr(abi.UVERBS_ATTR_CREATE_QP_HANDLE).Raw.Data = 3
		copy(r.Attr(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP).Bytes, abi.Bytes(&abi.QpCap{MaxInlineData: 16}))
		copy(r.Attr(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM).Bytes, []byte{1, 2, 3, 4})
		copy(r.Attr(abi.UVERBS_ATTR_UHW_OUT).Bytes, bytes.Repeat([]byte{7}, 32))
		return 0
	}}
	err := NewCall(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE).
		Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, 0).
		In(abi.UVERBS_ATTR_CREATE_QP_CAP, abi.Bytes(&cap)).
		New(abi.UVERBS_ATTR_CREATE_QP_HANDLE, &handle).
		U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, 5).
		Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, 2).
		Out(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, abi.Bytes(&resp)).
		Out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, num[:]).
		DriverIn(nil).DriverOut(uhw).Do(f, 14)
	if err != nil {
		t.Fatal(err)
	}
	if handle != 3 || resp.MaxInlineData != 16 || num != [4]byte{1, 2, 3, 4} || !bytes.Equal(uhw, bytes.Repeat([]byte{7}, 32)) {
		t.Errorf("%d, %+v, %v, %v", handle, resp, num, uhw)
	}
}

// TestMistakes checks that a call which the table does not allow never reaches the kernel.
func TestMistakes(t *testing.T) {
	f := &fake{answer: func(*Frame) syscall.Errno { return 0 }}
	var b [4]byte
	for what, c := range map[string]*Call{
		"no such method":   NewCall(77, 0),
		"no such command":  Invoke(99, nil, nil),
		"wrong size":       Invoke(abi.IB_USER_VERBS_CMD_ALLOC_PD, b[:], b[:]),
		"no answer":        Invoke(abi.IB_USER_VERBS_CMD_ALLOC_PD, make([]byte, 8), nil),
		"unknown":          NewCall(abi.UVERBS_OBJECT_PD, 0).Destroy(9, 1),
		"wrong kind":       NewCall(abi.UVERBS_OBJECT_PD, 0).U32(0, 1),
		"twice":            NewCall(abi.UVERBS_OBJECT_PD, 0).Destroy(0, 1).Destroy(0, 1),
		"too short":        NewCall(abi.UVERBS_OBJECT_CQ, 1).Destroy(0, 1).Out(1, b[:]),
		"missing":          NewCall(abi.UVERBS_OBJECT_CQ, 1).Destroy(0, 1),
		"no driver's data": NewCall(abi.UVERBS_OBJECT_PD, 0).Destroy(0, 1).DriverIn(b[:]),
	} {
		if err := c.Do(f, 14); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if f.calls != 0 {
		t.Errorf("%d calls were made", f.calls)
	}
}

func TestErrors(t *testing.T) {
	for errno, want := range map[syscall.Errno]ucs.Status{
		syscall.EINVAL: ucs.ErrInvalidParam, syscall.ENOMEM: ucs.ErrNoMemory, syscall.EBUSY: ucs.ErrBusy,
		syscall.EOPNOTSUPP: ucs.ErrUnsupported, syscall.EPROTONOSUPPORT: ucs.ErrUnsupported, syscall.EIO: ucs.ErrIO,
		syscall.ENODEV: ucs.ErrNoDevice, syscall.ENODATA: ucs.ErrNoElem, syscall.ETIMEDOUT: ucs.ErrTimedOut,
		syscall.EHOSTUNREACH: ucs.ErrUnreachable, syscall.ENOSPC: ucs.ErrBufferTooSmall, syscall.EAGAIN: ucs.ErrNoResource,
		syscall.EMFILE: ucs.ErrNoResource, syscall.ENOENT: ucs.ErrInvalidParam, syscall.EPERM: ucs.ErrUnsupported,
	} {
		f := &fake{answer: func(*Frame) syscall.Errno { return errno }}
		err := NewCall(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY).Destroy(0, 1).Do(f, 14)
		if !errors.Is(err, errno) || !errors.Is(err, want) || Errno(err) != errno {
			t.Errorf("%v: %v, status %v", errno, err, ucs.StatusOf(err))
		}
		prefix := "uverbs9: PD.DESTROY: "
		if errno == syscall.ENOENT {
			prefix = "uverbs9: PD.DESTROY (HANDLE): "
		}
		if text := err.Error(); !strings.HasPrefix(text, prefix) ||
			strings.Contains(text, "needs Linux 4.19") != (errno == syscall.EPROTONOSUPPORT) {
			t.Errorf("%v: %s", errno, text)
		}
	}
	f := &fake{answer: func(*Frame) syscall.Errno { return syscall.EINVAL }}
	err := Invoke(abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, make([]byte, 8), nil).Do(f, 14)
	if want := "uverbs9: REQ_NOTIFY_CQ: invalid argument"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	err = NewCall(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE).Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, 1).
		Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, 2).error(f, syscall.ENOENT)
	if e := (*Error)(nil); !errors.As(err, &e) || e.Attr != "" {
		t.Errorf("%v, where any of two handles is unknown", err)
	}
	if e := (&Error{Device: "d", Call: "C", Attr: "A", Errno: syscall.EPERM, Hint: "h"}); e.Error() != "d: C (A): operation not permitted: h" {
		t.Error(e)
	}
	if Errno(nil) != 0 || Errno(ucs.ErrIO) != 0 {
		t.Error("an errno from nothing")
	}
}

// TestProbe checks that the kernel is asked only once.
func TestProbe(t *testing.T) {
	errno := syscall.EPROTONOSUPPORT
	f := &fake{answer: func(f *Frame) syscall.Errno {
		if f.Header().NumAttrs != 0 {
			t.Error("a probe with attributes")
		}
		return errno
	}}
	var p Features
	for range 2 {
		err := p.Probe(f, 1, abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR)
		if !errors.Is(err, ucs.ErrUnsupported) || !strings.Contains(err.Error(), "needs Linux 5.12") {
			t.Error(err)
		}
	}
	if f.calls != 1 {
		t.Errorf("%d calls", f.calls)
	}
	errno = syscall.EIO // decides nothing
	for range 2 {
		if err := p.Probe(f, 1, abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE); !errors.Is(err, ucs.ErrIO) {
			t.Error(err)
		}
	}
	errno = syscall.EINVAL // the method exists
	for range 2 {
		if err := p.Probe(f, 1, abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE); err != nil {
			t.Error(err)
		}
	}
	if f.calls != 4 {
		t.Errorf("%d calls", f.calls)
	}
	if err := p.Probe(f, 1, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT); err == nil || f.calls != 4 {
		t.Error("a method was probed that would do something")
	}
}

func TestTrace(t *testing.T) {
	var out bytes.Buffer
	inner := &fake{answer: func(f *Frame) syscall.Errno {
		r, _ := Parse(f)
		if a := r.Attr(abi.UVERBS_ATTR_CORE_OUT); a != nil {
			copy(a.Bytes, abi.Bytes(&abi.AllocPdResp{PdHandle: 6}))
		}
		return 0
	}}
	f := Trace(inner, &out)
	var resp abi.AllocPdResp
	if err := Invoke(abi.IB_USER_VERBS_CMD_ALLOC_PD, abi.Bytes(&abi.AllocPd{}), abi.Bytes(&resp)).Do(f, 14); err != nil || resp.PdHandle != 6 {
		t.Errorf("%v, %+v", err, resp)
	}
	req := abi.ModifyQp{QpHandle: 3, AttrMask: 0x129181, Dest: abi.QpDest{Dgid: [16]byte{15: 1}}}
	Invoke(abi.IB_USER_VERBS_CMD_MODIFY_QP, abi.Bytes(&req), nil).Do(f, 14)
	NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY).Const(0, 1).Const(1, 2).U32(2, 0).
		Out(3, abi.Bytes(&abi.GidEntry{})).Do(f, 14)
	inner.answer = func(*Frame) syscall.Errno { return syscall.EBUSY }
	NewCall(abi.UVERBS_OBJECT_PD, 0).Destroy(0, 6).Do(f, 14)
	f.Write(append(abi.Bytes(&abi.CmdHdr{Command: 28, InWords: 8}), abi.Bytes(&abi.PostSend{QpHandle: 3})...))
	f.Write([]byte{1})
	f.Mmap(4096, 10)
	f.Munmap(nil)
	f.Close()
	want := `uverbs9: ALLOC_PD(CORE_IN={}) = 0 [CORE_OUT={PdHandle=6}]
uverbs9: MODIFY_QP(CORE_IN={Dest={Dgid=00000000000000000000000000000001}, QpHandle=3, AttrMask=0x129181}) = 0
uverbs9: DEVICE.QUERY_GID_ENTRY(PORT=1, GID_INDEX=2, FLAGS=0) = 0 [RESP_ENTRY={}]
uverbs9: PD.DESTROY(HANDLE=6) = -16 (device or resource busy)
uverbs9: write(POST_SEND{QpHandle=3}) = -13 (permission denied)
uverbs9: write(01) = -13 (permission denied)
uverbs9: mmap(0x1000, 10) = -22 (invalid argument)
uverbs9: munmap(0) = 0
uverbs9: close() = <nil>
`
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
	t.Setenv(traceEnv, "1")
	if _, ok := Traced(inner).(*tracer); !ok {
		t.Error("VERBS_DEBUG=1 has no effect")
	}
	t.Setenv(traceEnv, "")
	if Traced(inner) != File(inner) {
		t.Error("printing without being asked to")
	}
}

func TestParseRefuses(t *testing.T) {
	const gid = abi.UVERBS_METHOD_QUERY_GID_ENTRY
	good := func() *Frame {
		return NewCall(abi.UVERBS_OBJECT_DEVICE, gid).Const(0, 1).Const(1, 2).U32(2, 0).Out(3, make([]byte, 32)).frame(14)
	}
	if _, errno := Parse(good()); errno != 0 {
		t.Fatal(errno)
	}
	for what, c := range map[string]struct {
		change func(*Frame)
		want   syscall.Errno
	}{
		"length":            {func(f *Frame) { f.Header().Length++ }, syscall.EINVAL},
		"reserved":          {func(f *Frame) { f.Header().Reserved2 = 1 }, syscall.EINVAL},
		"beyond the frame":  {func(f *Frame) { f.Header().NumAttrs = 4000; f.Header().Length = 64024 & 0xffff }, syscall.EFAULT},
		"method":            {func(f *Frame) { f.Header().MethodId = 99 }, syscall.EPROTONOSUPPORT},
		"attribute":         {func(f *Frame) { f.Attrs(4)[0].AttrId = 99 }, syscall.EPROTONOSUPPORT},
		"twice":             {func(f *Frame) { f.Attrs(4)[0].AttrId = 1 }, syscall.EINVAL},
		"flags":             {func(f *Frame) { f.Attrs(4)[0].Flags = 8 }, syscall.EINVAL},
		"element":           {func(f *Frame) { f.Attrs(4)[0].AttrData = 1 }, syscall.EINVAL},
		"length of a const": {func(f *Frame) { f.Attrs(4)[0].Len = 4 }, syscall.EINVAL},
		"length of out":     {func(f *Frame) { f.Attrs(4)[3].Len = 33 }, syscall.EINVAL},
		"pointer before":    {func(f *Frame) { f.Attrs(4)[3].Data = f.Base() - 1 }, syscall.EFAULT},
		"pointer behind":    {func(f *Frame) { f.Attrs(4)[3].Data += 8 }, syscall.EFAULT},
		"pointer far off":   {func(f *Frame) { f.Attrs(4)[3].Data = ^uint64(0) }, syscall.EFAULT},
	} {
		f := good()
		c.change(f)
		if _, errno := Parse(f); errno != c.want {
			t.Errorf("%s: %v, want %v", what, errno, c.want)
		}
		Format(f, true)
	}
	f := good()
	f.Attrs(4)[0].AttrId, f.Attrs(4)[0].Flags = 99, 0
	if r, errno := Parse(f); errno != 0 || r.Missing() == nil || r.Missing().Name != "PORT" {
		t.Errorf("an unknown attribute that is not mandatory: %v", errno)
	}
	if _, errno := Parse(NewFrame(8)); errno != syscall.EFAULT {
		t.Error(errno)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open("/nonexistent/uverbs0", "uverbs0", 0); !errors.Is(err, ucs.ErrNoDevice) {
		t.Error(err)
	}
	for errno, want := range map[syscall.Errno]ucs.Status{
		syscall.EACCES: ucs.ErrNoDevice, syscall.EPERM: ucs.ErrNoDevice, syscall.ENXIO: ucs.ErrNoDevice, syscall.EMFILE: ucs.ErrNoResource,
	} {
		if err := openError("uverbs0", "/dev/infiniband/uverbs0", errno); !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Error(err)
		}
	}
	if _, err := Open(t.TempDir(), "uverbs0", 0); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := Open("/dev/null", "uverbs0", 0x1234); !errors.Is(err, ucs.ErrNoDevice) {
		t.Error(err)
	}
	f, err := Open("/dev/null", "uverbs0", 0)
	if err != nil {
		t.Fatal(err)
	}
	err = NewCall(abi.UVERBS_OBJECT_PD, 0).Destroy(0, 1).Do(f, 14)
	if !errors.Is(err, syscall.ENOTTY) || !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("an ioctl of /dev/null: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, syscall.EBADF) {
		t.Error(err)
	}
}
