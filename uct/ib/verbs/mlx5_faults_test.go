//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// forDevices counts the mappings of the process that are not inherited by children, such as the
// memory of queues.
func forDevices(t *testing.T) (n int) {
	t.Helper()
	for line := range bytes.Lines(must(os.ReadFile("/proc/self/smaps"))(t)) {
		if flags, ok := bytes.CutPrefix(line, []byte("VmFlags:")); ok && bytes.Contains(append(flags, ' '), []byte(" dc ")) {
			n++
		}
	}
	return n
}

// nothingLeft checks at the end of the test that nothing opened from now on is left: descriptors,
// goroutines, memory of queues, or objects and pages of the devices.
func nothingLeft(t *testing.T, devices ...*verbstest.Kernel) {
	t.Helper()
	before := forDevices(t)
	ucttest.NoLeaks(t)
	t.Cleanup(func() {
		for _, k := range devices {
			ended(t, k)
		}
		if n := forDevices(t); n != before {
			t.Errorf("%d mappings for devices, and %d before", n, before)
		}
	})
}

// ended checks that nothing of a program is left on a device.
func ended(t *testing.T, k *verbstest.Kernel) {
	t.Helper()
	if now, _ := k.Pinned(); k.Objects() != 0 || k.Mapped() != 0 || now != 0 {
		t.Errorf("%d objects, %d mappings and %d bytes pinned are left behind", k.Objects(), k.Mapped(), now)
	}
}

// TestMLX5Counts checks that forDevices, which nothingLeft uses, counts the mappings of queues.
func TestMLX5Counts(t *testing.T) {
	r := mlx5Rig(t, verbstest.MLX5{})
	before := forDevices(t)
	c := r.open(t)
	cq := must(c.CreateCQ(10, nil, 0))(t)
	if n := forDevices(t); n == before {
		t.Errorf("%d mappings with a queue and without", n)
	}
	check(t, cq.Close())
	check(t, c.Close())
	if n := forDevices(t); n != before {
		t.Errorf("%d mappings, and %d before", n, before)
	}
}

// lockable sets the limit of memory that the process may lock.
func lockable(t *testing.T, bytes uint64) {
	t.Helper()
	var was unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &was))
	if was.Max < bytes {
		t.Skipf("%d bytes can be locked at most", was.Max)
	}
	check(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: was.Max}))
	t.Cleanup(func() { check(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &was)) })
}

// TestMLX5LockLimit checks that the error for queues that cannot be pinned names the limit and the
// remedy. With rdma_rxe, whose queues belong to the kernel, it does not.
func TestMLX5LockLimit(t *testing.T) {
	lockable(t, 4096)
	for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.EPERM} {
		k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &verbstest.MLX5{}})
		nothingLeft(t, k)
		c := must(verbs.NewContext(k.Open(), 1))(t)
		pd, cq := must(c.AllocPD())(t), must(c.CreateCQ(4, nil, 0))(t)
		for call, make := range map[string]func() error{
			"CQ.CREATE":  func() error { _, err := c.CreateCQ(4, nil, 0); return err },
			"RESIZE_CQ":  func() error { return cq.Resize(100) },
			"SRQ.CREATE": func() error { _, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}); return err },
			"QP.CREATE": func() error {
				_, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1}})
				return err
			},
		} {
			k.FailCall(call, 0, errno)
			err := make()
			wantErr(t, err, ucs.ErrNoMemory, call)
			wantErr(t, err, errno, call)
			if err == nil || !strings.Contains(err.Error(), "the memory of queues is pinned, the process may lock 4096 bytes: raise the limit (ulimit -l,") {
				t.Errorf("%s: %v", call, err)
			}
		}
		check(t, c.Close())
	}
	r := fakeRig(t)
	c := r.open(t)
	r.kernel.FailCall("CQ.CREATE", 0, syscall.ENOMEM)
	if _, err := c.CreateCQ(4, nil, 0); !errors.Is(err, ucs.ErrNoMemory) || strings.Contains(err.Error(), "ulimit") {
		t.Error(err)
	}
}

// TestMLX5PageRefused checks that a device without a doorbell page cannot be opened, and that the
// error names a possible cause.
func TestMLX5PageRefused(t *testing.T) {
	for _, c := range []struct {
		name, call string
		cfg        verbstest.MLX5
		blue       string
		skip       int // number of calls that succeed first
		text       string
	}{
		{"a page of many", "mmap", verbstest.MLX5{StaticUARs: true}, "1", 3, "vm.max_map_count"},
		{"an object", "UAR.ALLOC", verbstest.MLX5{}, "", 0, "fewer processes"},
		{"the page of an object", "mmap", verbstest.MLX5{}, "", 0, "vm.max_map_count"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("VERBS_BLUEFLAME", c.blue)
			k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &c.cfg})
			nothingLeft(t, k)
			k.FailCall(c.call, c.skip, syscall.ENOMEM)
			_, err := verbs.NewContext(k.Open(), 1)
			wantErr(t, err, ucs.ErrNoMemory, c.name)
			if err == nil || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "doorbell page") {
				t.Error(err)
			}
		})
	}
	gone := verbstest.NewFabric().Add(verbstest.Config{MLX5: &verbstest.MLX5{}})
	nothingLeft(t, gone)
	gone.FailCall("UAR.ALLOC", 0, syscall.EIO)
	if _, err := verbs.NewContext(gone.Open(), 1); err == nil || !strings.Contains(err.Error(), "device was removed") || strings.Contains(err.Error(), "fewer processes") {
		t.Errorf("a device that is gone: %v", err)
	}
	// With BlueFlame a queue pair may be the first to need a page.
	t.Setenv("VERBS_BLUEFLAME", "1")
	k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &verbstest.MLX5{}})
	nothingLeft(t, k)
	c := must(verbs.NewContext(k.Open(), 1))(t)
	pd, cq := must(c.AllocPD())(t), must(c.CreateCQ(4, nil, 0))(t)
	k.FailCall("UAR.ALLOC", 0, syscall.ENOMEM)
	a := &verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1}}
	_, err := pd.CreateQP(a)
	wantErr(t, err, ucs.ErrNoMemory, "a queue pair")
	if err == nil || !strings.Contains(err.Error(), "fewer processes") {
		t.Error(err)
	}
	must(pd.CreateQP(a))(t)
	check(t, c.Close())
}

// TestMLX5OldKernels truncates the answer to GET_CONTEXT before each of its fields, as kernels do
// that do not know the field. Features that need it must be refused with an error that names the
// reason; the others must work.
func TestMLX5OldKernels(t *testing.T) {
	const (
		opens = iota
		sends // queue pairs without receives
		receives
		shared
		all
	)
	for _, c := range []struct {
		known int    // bytes of the answer
		lacks string // first missing field
		does  int
		says  string // part of the error of the first step that fails
	}{
		{0, "qp_tab_size", 0, "the limits of queues, in a reply of 0 bytes"},
		{4, "bf_reg_size", 0, "the limits of queues"},
		{8, "tot_bfregs", 0, "the limits of queues"},
		{12, "cache_line_size", 0, "the limits of queues"},
		{16, "max_sq_desc_sz", 0, "the limits of queues"},
		{18, "max_rq_desc_sz", 0, "the limits of queues"},
		{20, "max_send_wqebb", 0, "the limits of queues"},
		{24, "max_recv_wr", sends, "8 receives"},
		{28, "max_srq_recv_wr", receives, "4 receives in a shared queue"},
		{32, "num_ports", shared, "needs Linux 4.10"},
		{36, "comp_mask", shared, "needs Linux 4.10"},
		{40, "response_length", shared, "needs Linux 4.10"},
		{44, "cqe_version", shared, "needs Linux 4.10"},
		{45, "cmds_supp_uhw", shared, "needs Linux 4.10"},
		{46, "eth_min_inline", all, ""},
		{47, "clock_info_versions", all, ""},
		{48, "hca_core_clock_offset", all, ""},
		{56, "log_uar_size", all, ""},
		{60, "num_uars_per_page", 0, "0 pages of 2^12 bytes"}, // both were introduced together
		{64, "num_dyn_bfregs", all, ""},
		{68, "dump_fill_mkey", all, ""},
		{72, "nothing", all, ""},
		{500, "nothing", all, ""},
	} {
		t.Run(fmt.Sprintf("%d bytes, without %s", c.known, c.lacks), func(t *testing.T) {
			cfg := verbstest.MLX5{StaticUARs: true, OldUARs: c.known <= 56, Version0: c.known <= 44}
			k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &cfg})
			nothingLeft(t, k)
			f := &answers{File: k.Open(), change: func(call string, attr *uverbs.RequestAttr) {
				if call == "DEVICE.GET_CONTEXT" && attr.Spec.ID == abi.UVERBS_ATTR_UHW_OUT {
					clear(attr.Bytes[min(c.known, len(attr.Bytes)):])
					const responseLength = 40
					if c.known > responseLength {
						attr.Bytes[responseLength], attr.Bytes[responseLength+1] = byte(c.known), byte(c.known>>8)
					}
				}
			}}
			does, err := opens, error(nil)
			defer func() {
				if does != c.does && !(c.does == 0 && does == opens) || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%d of %d work: %v", does, c.does, err)
				}
			}()
			ctx, err := verbs.NewContext(f, 1)
			if err != nil {
				return
			}
			defer func() { check(t, ctx.Close()) }()
			pd, cq := must(ctx.AllocPD())(t), must(ctx.CreateCQ(4, nil, 0))(t)
			a := verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8}}
			if _, err = pd.CreateQP(&a); err != nil {
				return
			}
			does = sends
			a.Cap.MaxRecvWR = 8
			if _, err = pd.CreateQP(&a); err != nil {
				return
			}
			does = receives
			if _, err = pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}); err != nil {
				return
			}
			does = shared
			gid := must(ctx.DefaultGID(1))(t)
			to := gid.To(gid.GID)
			if _, err = pd.CreateAH(&to); err != nil {
				return
			}
			does = all
		})
	}
}

// answers is a device whose answers a test can change, except descriptors.
type answers struct {
	uverbs.File
	change func(call string, attr *uverbs.RequestAttr)
}

func (f *answers) Ioctl(frame *uverbs.Frame) syscall.Errno {
	e := f.File.Ioctl(frame)
	r, errno := uverbs.Parse(frame)
	if e != 0 || errno != 0 {
		return e
	}
	name := r.Spec.Name
	if a := r.Attr(abi.UVERBS_ATTR_WRITE_CMD); name == "DEVICE.INVOKE_WRITE" {
		name = abi.LookupCommand(uint32(binary.NativeEndian.Uint64(a.Bytes))).Name
	}
	for i := range r.Attrs {
		if a := &r.Attrs[i]; a.Spec.Kind == abi.Out && name != "CREATE_COMP_CHANNEL" {
			f.change(name, a)
		}
	}
	return e
}

// everything creates and uses one object of each kind on mlx5, and closes the device. It skips what
// does not work.
func everything(f verbs.File, k *verbstest.Kernel) error {
	c, err := verbs.NewContext(f, 1)
	if err != nil {
		return err
	}
	return errors.Join(use(c, k), c.Close())
}

func use(c *verbs.Context, k *verbstest.Kernel) error {
	var errs []error
	failed := func(err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		return err != nil
	}
	pd, err := c.AllocPD()
	if failed(err) {
		return err
	}
	ch, err := c.CreateCompChannel()
	if failed(err) {
		return err
	}
	cq, err := c.CreateCQ(4, ch, 0)
	if failed(err) {
		return err
	}
	failed(cq.ReqNotify(false))
	buf := make([]byte, 100)
	mr, err := pd.RegMR(buf, fullAccess)
	if failed(err) {
		return err
	}
	_, err = c.QueryDevice()
	failed(err)
	_, err = c.QueryPort(1)
	failed(err)
	_, err = c.QueryGIDTable()
	failed(err)
	gid, err := c.DefaultGID(1)
	failed(err)
	path := gid.To(gid.GID)
	srq, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1})
	if !failed(err) {
		_, err = srq.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{mr.SGE(0, 8)}}})
		failed(err)
		_, err = srq.Query()
		failed(err)
	}
	mw, err := pd.AllocMW()
	failed(err)
	ah, err := pd.CreateAH(&path)
	failed(err)
	for _, a := range []verbs.QPInitAttr{{Type: verbs.RC}, {Type: verbs.UD}, {Type: verbs.RC, SRQ: srq}} {
		a.SendCQ, a.RecvCQ, a.Cap = cq, cq, verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2}
		qp, err := pd.CreateQP(&a)
		if failed(err) {
			continue
		}
		_, err = qp.Query(verbs.QPAttrCap)
		failed(err)
		failed(qp.Init(&verbs.QPAttr{Port: 1, QKey: qkey, Access: fullAccess}))
		failed(qp.Connect(&verbs.QPAttr{PathMTU: verbs.MTU1024, AH: path, DestQPN: qp.QPN(), MaxDestRdAtomic: 1, MaxRdAtomic: 1, Timeout: 8, RetryCount: 1, RNRRetry: 1}))
		if a.SRQ == nil {
			_, err = qp.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{mr.SGE(0, 90)}}})
			failed(err)
		}
		wr := []verbs.SendWR{{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, 8)}}}
		if a.Type == verbs.UD {
			wr[0].AH, wr[0].RemoteQPN, wr[0].RemoteQKey = ah, qp.QPN(), qkey
		} else if mw != nil {
			wr = append(wr, verbs.SendWR{Opcode: verbs.WRBindMW, Bind: &verbs.MWBind{MW: mw, MR: mr, Addr: mr.Addr(), Length: 8}})
		}
		_, err = qp.PostSend(wr)
		failed(err)
		k.Progress()
		cq.Poll(make([]verbs.WC, 2))
		failed(cq.Resize(cq.CQE() + 5))
		failed(qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
		cq.Poll(make([]verbs.WC, 2))
	}
	return errors.Join(errs...)
}

// TestMLX5ShortAnswers sets the end of each answer of the kernel to zero, from every offset on. The
// result must be refused or ignored, and nothing may be left.
func TestMLX5ShortAnswers(t *testing.T) {
	lengths := make(map[string]int) // of each answer
	for _, m := range modes {
		k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &m.cfg})
		check(t, everything(&answers{k.Open(), func(call string, attr *uverbs.RequestAttr) {
			name := call + " " + attr.Spec.Name
			lengths[name] = max(lengths[name], len(attr.Bytes))
		}}, k))
	}
	for _, want := range []string{"DEVICE.GET_CONTEXT", "UAR.ALLOC", "CQ.CREATE", "SRQ.CREATE", "QP.CREATE", "DEVICE.QUERY_PORT", "EX_QUERY_DEVICE", "RESIZE_CQ"} {
		found := false
		for name := range lengths {
			found = found || strings.HasPrefix(name, want+" ")
		}
		if !found {
			t.Errorf("no answer to %s among %v", want, lengths)
		}
	}
	for name, length := range lengths {
		t.Run(name, func(t *testing.T) {
			nothingLeft(t)
			refused := 0
			step := 1
			if race.Enabled {
				step = 9
			}
			for n := 0; n < length; n += step {
				for _, m := range modes[1:3] {
					k := verbstest.NewFabric().Add(verbstest.Config{MLX5: &m.cfg})
					err := everything(&answers{k.Open(), func(call string, attr *uverbs.RequestAttr) {
						if call+" "+attr.Spec.Name == name {
							clear(attr.Bytes[min(n, len(attr.Bytes)):])
						}
					}}, k)
					ended(t, k)
					if err != nil {
						refused++
						if status := ucs.StatusOf(err); status == ucs.OK {
							t.Errorf("%d bytes: %v", n, err)
						}
					}
				}
			}
			t.Logf("%d of %d are refused in part", refused, 2*length/step)
		})
	}
}
