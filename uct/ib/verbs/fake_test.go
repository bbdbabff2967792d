//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// These tests need a simulated device, which can be made to fail.

// makeAll creates one object of each kind and returns the first error.
func makeAll(k *verbstest.Kernel) error {
	c, err := verbs.NewContext(k.Open(), 2)
	if err != nil {
		return err
	}
	err = func() error {
		pd, err := c.AllocPD()
		if err != nil {
			return err
		}
		ch, err := c.CreateCompChannel()
		if err != nil {
			return err
		}
		cq, err := c.CreateCQ(10, ch, 0)
		if err != nil {
			return err
		}
		if err := cq.Resize(20); err != nil {
			return err
		}
		if err := cq.ReqNotify(false); err != nil {
			return err
		}
		mr, err := pd.RegMR(make([]byte, 10), 0)
		if err != nil {
			return err
		}
		if err := mr.Rereg(verbs.ReregTranslation, nil, make([]byte, 20), 0); err != nil {
			return err
		}
		mw, err := pd.AllocMW()
		if err != nil {
			return err
		}
		srq, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 10, MaxSGE: 1})
		if err != nil {
			return err
		}
		if err := srq.SetLimit(1); err != nil {
			return err
		}
		if err := srq.Resize(30); err != nil {
			return err
		}
		if _, err := srq.Query(); err != nil {
			return err
		}
		qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
		if err != nil {
			return err
		}
		if err := qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState); err != nil {
			return err
		}
		if _, err := qp.Query(verbs.QPAttrState); err != nil {
			return err
		}
		gids, err := c.QueryGIDTable()
		if err != nil {
			return err
		}
		if _, err := c.QueryGID(1, gids[0].Index); err != nil {
			return err
		}
		if _, err := c.QueryPort(1); err != nil {
			return err
		}
		if _, err := c.QueryDevice(); err != nil {
			return err
		}
		ah, err := pd.CreateAH(&verbs.AHAttr{Global: true, DGID: gids[0].GID, Port: 1})
		if err != nil {
			return err
		}
		for _, o := range []interface{ Close() error }{mw, ah, qp, srq, cq, ch} {
			if err := o.Close(); err != nil {
				return err
			}
		}
		return nil
	}()
	return errors.Join(err, c.Close())
}

// TestFaults makes each call fail in turn: the error must be returned, and nothing may be left.
func TestFaults(t *testing.T) {
	names := []string{"mmap"}
	for i := range abi.Methods {
		switch m := abi.Methods[i].Name; m {
		case "DEVICE.INVOKE_WRITE", "DEVICE.INFO_HANDLES", "DEVICE.QUERY_CONTEXT", "MR.QUERY", "MR.REG_DMABUF", "MR.DESTROY", "PD.DESTROY",
			"UAR.ALLOC", "UAR.DESTROY":
		default:
			names = append(names, m)
		}
	}
	for i := range abi.Commands {
		switch c := abi.Commands[i].Name; c {
		case "QUERY_DEVICE", "POST_SEND", "ATTACH_MCAST", "DETACH_MCAST":
		default:
			names = append(names, c)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			for skip := range 5 { // several queues are mapped
				k := verbstest.New()
				k.FailCall(name, skip, syscall.ENOMEM)
				err := makeAll(k)
				if k.Objects() != 0 || k.Mapped() != 0 {
					t.Errorf("%d objects and %d mappings left", k.Objects(), k.Mapped())
				}
				if skip == 0 {
					wantErr(t, err, ucs.ErrNoMemory, name)
					wantErr(t, err, syscall.ENOMEM, name)
				} else if err == nil {
					break
				}
			}
		})
	}
	ucttest.NoLeaks(t)
	check(t, makeAll(verbstest.New()))
}

// TestLockLimit checks that the error names the limit of locked memory.
func TestLockLimit(t *testing.T) {
	r := fakeRig(t)
	pd := must(r.open(t).AllocPD())(t)
	var l syscall.Rlimit
	const memlock = 8
	if syscall.Getrlimit(memlock, &l) != nil || l.Cur == ^uint64(0) {
		t.Skip("RLIMIT_MEMLOCK is unlimited here")
	}
	for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.EPERM} {
		r.kernel.FailCall("REG_MR", 0, errno)
		_, err := pd.RegMR(make([]byte, 12345), 0)
		wantErr(t, err, ucs.ErrNoMemory, "beyond the limit")
		wantErr(t, err, errno, "beyond the limit")
		if !strings.Contains(err.Error(), "12345 bytes wanted") || !strings.Contains(err.Error(), "ulimit -l") {
			t.Error(err)
		}
	}
}

// TestDoorbell checks that requests stay in the queue if the doorbell fails, and are sent by the
// next doorbell.
func TestDoorbell(t *testing.T) {
	r := fakeRig(t)
	a, b := r.pair(t, verbs.RC)
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 8)})
	r.kernel.FailCall("write", 0, syscall.EIO)
	n, err := a.qp.PostSend([]verbs.SendWR{{ID: 6, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)}})
	wantErr(t, err, syscall.EIO, "the bell")
	if n != 1 {
		t.Errorf("%d posted: %v", n, err)
	}
	if a.cq.Poll(make([]verbs.WC, 1)) != 0 {
		t.Error("it was sent all the same")
	}
	if _, err := a.qp.PostSend(nil); err != nil {
		t.Error(err)
	}
	a.done(t, 6, verbs.WCSend)
	b.done(t, 0, verbs.WCRecv)
}

// TestSlowDoorbell checks that another call replaces write(2) permanently if the kernel refuses it.
func TestSlowDoorbell(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EPERM} {
		r := fakeRig(t)
		a, b := r.pair(t, verbs.RC)
		for i := range 3 {
			r.kernel.FailCall("write", 0, errno)
			b.recv(t, verbs.RecvWR{ID: 1, SGList: b.at(0, 8)})
			a.buf[0] = byte(i + 1)
			a.send(t, verbs.SendWR{ID: 6, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
			a.done(t, 6, verbs.WCSend)
			b.done(t, 1, verbs.WCRecv)
			if b.buf[0] != byte(i+1) {
				t.Errorf("%v: wrong bytes", errno)
			}
		}
		r.kernel.FailCall("POST_SEND", 0, syscall.EIO)
		_, err := a.qp.PostSend(nil)
		wantErr(t, err, ucs.ErrIO, "the slow bell")
	}
}

func TestAsyncEvents(t *testing.T) {
	r := fakeRig(t)
	a, b := r.pair(t, verbs.RC)
	next := func(s *side) verbs.AsyncEvent {
		t.Helper()
		return must(s.ctx.GetAsyncEvent(timeout(t)))(t)
	}
	r.kernel.SetPort(false)
	if e := next(a); e.Type != verbs.EventPortErr || e.Port != 1 || e.String() != "port error, port 1" {
		t.Errorf("%v", e)
	}
	if p := must(a.ctx.QueryPort(1))(t); p.State != verbs.PortDown {
		t.Errorf("%v", p.State)
	}
	r.kernel.SetPort(true)
	if e := next(a); e.Type != verbs.EventPortActive || e.Port != 1 {
		t.Errorf("%v", e)
	}
	r.kernel.SetGID(5, [16]byte{15: 9})
	if e := next(a); e.Type != verbs.EventGIDChange || e.Port != 1 {
		t.Errorf("%v", e)
	}
	for range 3 {
		next(b)
	}
	// The responder reports a wrong key in an event.
	a.send(t, verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: 1})
	if e := next(b); e.Type != verbs.EventQPAccessErr || e.QP != b.qp || e.CQ != nil {
		t.Errorf("%v", e)
	}
	// More completions than the queue has room for.
	c, d := r.pair(t, verbs.RC)
	small := must(d.ctx.CreateCQ(1, nil, 0))(t)
	check(t, d.qp.Close())
	d.newQP(t, verbs.RC, func(a *verbs.QPInitAttr) { a.RecvCQ = small })
	check(t, c.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
	d.up(t, c)
	c.up(t, d)
	for range small.CQE() + 1 {
		d.recv(t, verbs.RecvWR{})
		c.send(t, verbs.SendWR{Opcode: verbs.WRSend})
	}
	if e := next(d); e.Type != verbs.EventCQErr || e.CQ != small {
		t.Errorf("%v", e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := c.ctx.GetAsyncEvent(ctx)
	wantErr(t, err, ucs.ErrCanceled, "no event")
	// Closing the device ends the wait.
	end := make(chan error)
	go func() {
		_, err := c.ctx.GetAsyncEvent(context.Background())
		end <- err
	}()
	check(t, c.ctx.Close())
	wantErr(t, <-end, ucs.ErrCanceled, "a closed device")
}

// TestPortDown checks that requests wait for a port that is down, as long as retries remain.
func TestPortDown(t *testing.T) {
	r := fakeRig(t)
	a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RetryCount = 3 })
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 8)})
	r.kernel.SetPort(false)
	a.send(t, verbs.SendWR{ID: 1, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
	r.kernel.SetPort(true)
	a.done(t, 1, verbs.WCSend)
	r.kernel.SetPort(false)
	a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRetryExcErr {
		t.Errorf("%+v (%v)", wc, wc.Status)
	}
}

// TestRemove removes a device that is open: events and calls must report it, and closing must
// succeed.
func TestRemove(t *testing.T) {
	r := fakeRig(t)
	a, b := r.pair(t, verbs.RC)
	a.works(t, b, 1)
	mw := must(a.pd.AllocMW())(t)
	srq := must(a.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}))(t)
	ends := make(chan error)
	go func() {
		_, err := a.cq.Wait(context.Background(), make([]verbs.WC, 1))
		ends <- err
	}()
	r.kernel.Remove()
	if e := must(a.ctx.GetAsyncEvent(timeout(t)))(t); e.Type != verbs.EventDeviceFatal || e.Port != 0 || e.QP != nil {
		t.Errorf("%v", e)
	}
	check(t, a.cq.Channel().Close())
	if err := <-ends; !errors.Is(err, ucs.ErrCanceled) && !errors.Is(err, syscall.EIO) { // it may start later
		t.Errorf("waiting for completions: %v", err)
	}
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend, SGList: a.at(0, 8)}})
	wantErr(t, err, syscall.EIO, "a send")
	_, err = a.ctx.AllocPD()
	wantErr(t, err, ucs.ErrIO, "a domain")
	for what, o := range map[string]interface{ Close() error }{"QP": a.qp, "MW": mw, "SRQ": srq, "MR": a.mr, "PD": a.pd, "CQ": a.cq} {
		wantErr(t, o.Close(), ucs.ErrIO, what)
	}
	wantErr(t, srq.Resize(9), ucs.ErrIO, "a resize")
	if n := a.cq.Poll(make([]verbs.WC, 1)); n != 0 {
		t.Error("a completion")
	}
	check(t, a.ctx.Close())
	check(t, b.ctx.Close())
}

// otherDriver is a device with the driver id of another driver.
type otherDriver struct {
	uverbs.File
	id uint32
}

func (o otherDriver) Ioctl(f *uverbs.Frame) syscall.Errno {
	if f.Header().DriverId != o.id {
		return syscall.EINVAL
	}
	f.Header().DriverId = verbstest.Driver
	return o.File.Ioctl(f)
}

// TestOtherDrivers checks that the error names the driver of an unsupported device and the missing
// provider.
func TestOtherDrivers(t *testing.T) {
	for id, name := range map[uint32]string{
		abi.RDMA_DRIVER_MLX4: "mlx4", abi.RDMA_DRIVER_IRDMA: "irdma", abi.RDMA_DRIVER_BNXT_RE: "bnxt_re", abi.RDMA_DRIVER_EFA: "efa",
		abi.RDMA_DRIVER_ERDMA: "erdma", abi.RDMA_DRIVER_MANA: "mana", abi.RDMA_DRIVER_HNS: "hns", abi.RDMA_DRIVER_SIW: "siw", 31: "number 31", 99: "",
	} {
		ucttest.NoLeaks(t)
		place := "uct/ib/verbs/internal/" + name
		if id == 31 {
			place = "a package in uct/ib/verbs/internal"
		}
		says := fmt.Sprintf("verbstest0 has the kernel driver %s, which is not supported, only lacking, mlx5, rxe (a provider would go to %s): ", name, place)
		if name == "" {
			says = "unknown driver"
		}
		_, err := verbs.NewContext(otherDriver{verbstest.New().Open(), id}, 1)
		if err == nil || !strings.Contains(err.Error(), says) || name != "" && !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("driver %d: %v", id, err)
		}
	}
	_, err := verbs.NewContext(verbstest.New().Open(), 3)
	wantErr(t, err, ucs.ErrUnsupported, "another version")
	if err == nil || !strings.Contains(err.Error(), "driver rxe has version 3 of its interface, not 2 to 2") {
		t.Error(err)
	}
}

// TestProbeDMABuf checks that the error names the kernel version that a missing feature needs.
func TestProbeDMABuf(t *testing.T) {
	c := fakeRig(t).open(t)
	err := c.ProbeDMABuf()
	wantErr(t, err, ucs.ErrUnsupported, "dma-buf")
	if err == nil || !strings.Contains(err.Error(), "needs Linux 5.12") {
		t.Error(err)
	}
	pd := must(c.AllocPD())(t)
	_, err = pd.RegDMABufMR(0, 4096, 0, 0, verbs.AccessLocalWrite)
	wantErr(t, err, ucs.ErrUnsupported, "dma-buf")
}
