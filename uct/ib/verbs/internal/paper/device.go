//go:build linux

package paper

import (
	"encoding/binary"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Device is the device opened once: the kernel's half of the driver and the adapter.
// It answers what is about paper's queues and hands everything on to the kernel of
// verbstest, of whose queues the adapter is the user.
type Device struct {
	// To be set before the device is used.
	Lacks    uint32        // features, a bit each
	PageSize uint32        // what the kernel says of the page, if not the truth
	MapFails syscall.Errno // of the page

	uverbs.File
	kernel *verbstest.Kernel
	hw     provider.Context // of the queues of verbstest
	mu     sync.Mutex
	page   []byte
	cqs    map[uint32]*hwCQ // by handle
	srqs   map[uint32]*hwSRQ
	qps    map[uint32]*hwQP
	ahs    map[uint32]provider.AH // by number
}

// Open opens the device once more.
func Open(k *verbstest.Kernel) *Device {
	d := &Device{File: k.Open(), kernel: k, PageSize: pageSize, cqs: make(map[uint32]*hwCQ), srqs: make(map[uint32]*hwSRQ),
		qps: make(map[uint32]*hwQP), ahs: make(map[uint32]provider.AH)}
	d.hw, _ = provider.Find(verbstest.Driver).Open(provider.Device{File: d.File, Driver: verbstest.Driver})
	return d
}

// Mapped reports whether the page is mapped.
func (d *Device) Mapped() bool { return d.page != nil }

func (d *Device) Mmap(offset uint64, n int) ([]byte, syscall.Errno) {
	if offset != pageAt {
		return d.File.Mmap(offset, n)
	}
	if d.MapFails != 0 {
		return nil, d.MapFails
	}
	var err error
	if d.page, err = arena.Map(n, arena.Options{}); err != nil {
		return nil, syscall.ENOMEM
	}
	return d.page, 0
}

func (d *Device) Munmap(b []byte) syscall.Errno {
	if d.page == nil || &b[0] != &d.page[0] {
		return d.File.Munmap(b)
	}
	d.page = nil
	arena.Unmap(b)
	return 0
}

func (d *Device) Close() error {
	d.mu.Lock()
	for _, q := range d.qps {
		q.hw.Detach()
	}
	for _, s := range d.srqs {
		s.hw.Detach()
	}
	for _, c := range d.cqs {
		c.hw.Detach()
	}
	d.hw.Detach()
	d.mu.Unlock()
	return d.File.Close()
}

// Ioctl takes what is the driver's out of a request, has the kernel of verbstest
// answer it, and puts its own answer in.
func (d *Device) Ioctl(f *uverbs.Frame) syscall.Errno {
	r, errno := uverbs.Parse(f)
	if errno != 0 {
		return errno
	}
	if r.Driver != ID {
		return syscall.EINVAL
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.Header().DriverId = verbstest.Driver
	c := call{name: r.Spec.Name, r: r}
	if a := r.Attr(abi.UVERBS_ATTR_WRITE_CMD); a != nil && a.Spec.Kind == abi.Const && c.name == "DEVICE.INVOKE_WRITE" {
		if spec := abi.LookupCommand(uint32(binary.NativeEndian.Uint64(a.Bytes))); spec != nil {
			c.name = spec.Name
		}
	}
	if a := r.Attr(abi.UVERBS_ATTR_UHW_IN); a != nil && c.name != "MODIFY_SRQ" {
		c.in = append(c.in, a.Bytes...)
		a.Raw.AttrId, a.Raw.Flags = 0xfff, 0 // not in the table: it is passed over
	}
	if e := d.File.Ioctl(f); e != 0 {
		return e
	}
	return d.answer(&c)
}

// call is a request that the kernel has answered.
type call struct {
	name string
	r    *uverbs.Request
	in   []byte // for the driver
}

func (c *call) bytes(id uint16) []byte {
	if a := c.r.Attr(id); a != nil {
		return a.Bytes
	}
	return nil
}
func (c *call) handle(id uint16) uint32 { return uint32(c.r.Attr(id).Raw.Data) }
func (c *call) u32(id uint16) uint32    { return binary.NativeEndian.Uint32(c.bytes(id)) }

// queue is the k-th that the driver's data names.
func (c *call) queue(k int) queue {
	b := c.in[k*12:]
	n := order.Uint32(b[8:])
	return queue{mem: memory(order.Uint64(b), int(n+1)*block), n: n}
}

// made gives one of verbstest's objects what the kernel has answered of it, and
// answers a number instead.
func (c *call) made(o provider.Object, number uint32) {
	_, out := o.Data()
	copy(out, c.bytes(abi.UVERBS_ATTR_UHW_OUT))
	order.PutUint32(c.bytes(abi.UVERBS_ATTR_UHW_OUT), number)
}

// load reads a struct of the kernel's.
func load[T abi.Struct](b []byte) (v T) {
	copy(abi.Bytes(&v), b)
	return v
}

// answer is the driver's part of a call.
func (d *Device) answer(c *call) syscall.Errno {
	var err error
	switch c.name {
	case "DEVICE.GET_CONTEXT":
		out := c.bytes(abi.UVERBS_ATTR_UHW_OUT)
		order.PutUint32(out, d.Lacks)
		order.PutUint64(out[8:], pageAt)
		order.PutUint32(out[16:], d.PageSize)
	case "CQ.CREATE":
		h := c.handle(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
		q := &hwCQ{queue: c.queue(0)}
		q.hw, _ = d.hw.NewCQ(&provider.CQInit{})
		c.made(q.hw, h)
		err = q.hw.Attach(&provider.CQMade{Handle: h})
		d.cqs[h] = q
	case "RESIZE_CQ":
		q := d.cqs[load[abi.ResizeCq](c.bytes(abi.UVERBS_ATTR_CORE_IN)).CqHandle]
		n := 0
		next, _ := q.hw.Resize(&n)
		_, out := next.Data()
		copy(out, c.bytes(abi.UVERBS_ATTR_UHW_OUT))
		order.PutUint32(c.bytes(abi.UVERBS_ATTR_UHW_OUT), load[abi.ResizeCq](c.bytes(abi.UVERBS_ATTR_CORE_IN)).CqHandle)
		err = next.Done(&n)
		q.queue, q.next = c.queue(0), order.Uint32(c.in[12:])
	case "CQ.DESTROY":
		h := c.handle(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE)
		d.cqs[h].hw.Detach()
		delete(d.cqs, h)
	case "SRQ.CREATE":
		h := c.handle(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE)
		s := &hwSRQ{queue: c.queue(0)}
		s.hw, _ = d.hw.NewSRQ(&provider.SRQInit{})
		c.made(s.hw, h)
		err = s.hw.Attach(&provider.SRQMade{Handle: h, MaxSGE: int(c.u32(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE))})
		d.srqs[h] = s
	case "SRQ.DESTROY":
		h := c.handle(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE)
		d.srqs[h].hw.Detach()
		delete(d.srqs, h)
	case "QP.CREATE":
		err = d.createQP(c)
	case "QP.DESTROY":
		h := c.handle(abi.UVERBS_ATTR_DESTROY_QP_HANDLE)
		d.qps[h].hw.Detach()
		delete(d.qps, h)
	case "MODIFY_QP":
		m := load[abi.ModifyQp](c.bytes(abi.UVERBS_ATTR_CORE_IN))
		if q := d.qps[m.QpHandle]; m.AttrMask&1 != 0 && m.QpState == 0 { // to RESET: it counts from 0 again
			q.hw.Reset()
			q.sent, q.received = 0, 0
		}
	case "CREATE_AH":
		out := c.bytes(abi.UVERBS_ATTR_UHW_OUT)
		a, _ := d.hw.NewAH(nil)
		num := binary.NativeEndian.Uint32(out)
		c.made(a, num)
		err = a.Attach()
		d.ahs[num] = a
	}
	if err != nil {
		return syscall.EIO
	}
	return 0
}

func (d *Device) createQP(c *call) error {
	h, num := c.handle(abi.UVERBS_ATTR_CREATE_QP_HANDLE), c.u32(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM)
	q := &hwQP{sq: c.queue(0), rq: c.queue(1), qpn: num}
	init := provider.QPInit{Type: provider.QPType(binary.NativeEndian.Uint64(c.bytes(abi.UVERBS_ATTR_CREATE_QP_TYPE)))}
	if c.r.Attr(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) != nil {
		init.SRQ, q.shared = d.srqs[c.handle(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE)].hw, true
	}
	q.typ = init.Type
	q.hw, _ = d.hw.NewQP(&init)
	cap := load[abi.QpCap](c.bytes(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP))
	c.made(q.hw, num)
	made := provider.QPMade{Handle: h, QPN: provider.QPN(num), Cap: provider.QPCap{MaxSendSGE: int(cap.MaxSendSge),
		MaxRecvSGE: int(cap.MaxRecvSge), MaxInline: int(cap.MaxInlineData)}}
	err := q.hw.Attach(&made)
	q.sends = made.Sends
	d.qps[h] = q
	return err
}
