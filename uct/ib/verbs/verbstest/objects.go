//go:build linux

package verbstest

import (
	"slices"
	"syscall"
	"time"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

type pd struct {
	refs int
}

type mr struct {
	pd     *pd
	space  Space // memory of the program; nil: this process
	index  uint32
	start  uint64 // address in the process
	iova   uint64 // address that peers use
	length uint64
	pinned int64 // pinned memory in bytes
	access uint32
	lkey   uint32
	rkey   uint32 // 0 without remote access
}

// mw is a memory window.
type mw struct {
	pd     *pd
	index  uint32
	typ    uint8 // 1 or 2
	rkey   uint32
	mr     *mr // nil while the window is closed
	qp     *qp
	addr   uint64 // address that peers use
	base   uint64 // corresponding address in the region
	length uint64
	access uint32
}

type cq struct {
	f        *file
	queue    compQueue
	cqe      uint32 // capacity of the queue
	user     uint64
	desc     abi.CompEventDesc // the event record, which names the queue
	channel  *eventPipe        // nil for none
	armed    uint8
	dead     bool
	overruns bool // the queue is not checked for overruns
	refs     int
	events   uint32
}

// Values of cq.armed: the queue is armed for solicited completions, or for the next completion.
const (
	armedSolicited = 1
	armedNext      = 2
)

type srq struct {
	f      *file
	pd     *pd
	queue  recvQueue
	num    uint32
	user   uint64
	maxWR  uint32
	maxSGE uint32
	limit  uint32
	refs   int
}

type ah struct {
	pd   *pd
	num  uint32
	path path
}

type qp struct {
	f         *file
	pd        *pd
	handle    uint32
	num       uint32
	typ       uint32
	user      uint64
	cap       abi.QpCap
	sigAll    bool
	send      *cq
	recv      *cq
	srq       *srq
	sq        sendQueue
	rq        recvQueue    // nil: receives are shared
	attr      abi.ModifyQp // what MODIFY_QP has set
	path      path         // path to attr.Dest
	retries   uint8
	rnr       uint8
	later     time.Time // when a waiting request is retried; see Fabric.Serve
	sendState sendState
	groups    map[[16]byte]bool // multicast groups

	list       *qpList // list of the scheduler that has the queue pair, nil for none
	prev, next *qp     // neighbors in that list
}

// destroy destroys the object with the handle h. It fails with EBUSY or EINVAL if other objects
// refer to it, and with ENOENT if there is none.
func (f *file) destroy(h uint32) syscall.Errno {
	switch o := f.objects[h].(type) {
	case *pd:
		if o.refs > 0 {
			return syscall.EBUSY
		}
	case *mr:
		for _, w := range f.k.mws {
			if w.mr == o {
				return syscall.EINVAL // like rdma_rxe
			}
		}
		o.pd.refs--
		f.k.pin(-o.pinned)
		delete(f.k.mrs, o.index)
	case *mw:
		o.pd.refs--
		delete(f.k.mws, o.index)
	case *ah:
		o.pd.refs--
		delete(f.k.ahs, o.num)
	case *cq:
		if o.refs > 0 {
			return syscall.EBUSY
		}
		o.queue.end()
	case *srq:
		if o.refs > 0 {
			return syscall.EBUSY
		}
		o.pd.refs--
		f.k.srqs--
		o.queue.end()
	case *qp:
		if len(o.groups) > 0 {
			return syscall.EBUSY
		}
		o.pd.refs--
		o.send.refs--
		o.recv.refs--
		if o.srq != nil {
			o.srq.refs--
		}
		for _, w := range f.k.mws {
			if w.qp == o {
				w.mr, w.qp = nil, nil
			}
		}
		o.leave()
		delete(f.k.qps, o.num)
		f.k.order = slices.DeleteFunc(f.k.order, func(q *qp) bool { return q == o })
		o.sq.end()
		if o.rq != nil {
			o.rq.end()
		}
	case *uar:
		o.destroy()
	default:
		return syscall.ENOENT
	}
	delete(f.objects, h)
	return 0
}

// destroyAll destroys all objects of the file. The caller holds Fabric.mu.
func (f *file) destroyAll() {
	for _, o := range f.objects {
		if q, ok := o.(*qp); ok {
			q.groups = nil
		}
	}
	for range 5 { // the depth of references among objects
		for h := range f.objects {
			f.destroy(h)
		}
	}
}

// attr returns the kernel's answer to QUERY_DEVICE.
func (k *Kernel) attr() abi.ExQueryDeviceResp {
	l, guid := &k.cfg.Limits, bigEndian(k.cfg.NodeGUID)
	atomics := uint32(1) // IB_ATOMIC_HCA: atomic with respect to the other operations of the device
	if l.NoAtomics {
		atomics = 0
	}
	a := abi.ExQueryDeviceResp{
		Base: abi.QueryDeviceResp{
			NodeGuid: guid, SysImageGuid: guid, PhysPortCnt: uint8(len(k.ports)),
			MaxMrSize: ^uint64(0), PageSizeCap: 0xfffff000, VendorId: 0xffffff, MaxQp: uint32(l.QPs), MaxQpWr: uint32(l.WR),
			DeviceCapFlags: 0x1223c76, MaxSge: uint32(l.SGE), MaxSgeRd: uint32(l.SGE), MaxCq: 0xfffff, MaxCqe: uint32(l.CQE), MaxMr: 0x7ffff,
			MaxPd: 0xffffc, MaxQpRdAtom: uint32(l.RdAtomic), MaxResRdAtom: 0x3f000, MaxQpInitRdAtom: uint32(l.RdAtomic), AtomicCap: atomics, MaxMw: 0x7ffff,
			MaxMcastGrp: 8192, MaxMcastQpAttach: 56, MaxTotalMcastQpAttach: 8192 * 56, MaxAh: 0x7fff, MaxSrq: uint32(l.SRQs),
			MaxSrqWr: uint32(l.SRQWR), MaxSrqSge: uint32(min(l.SGE, maxSRQSGE)), MaxPkeys: 64, LocalCaAckDelay: 15,
		},
		ResponseLength: 304,
	}
	k.kind.attr(&a)
	a.DeviceCapFlagsEx = uint64(a.Base.DeviceCapFlags)
	return a
}

// load decodes a struct from b. If b is too short, the rest of the struct is zero.
func load[T abi.Struct](b []byte) T {
	var v T
	fetch(&v, b)
	return v
}

// fetch decodes a struct into v, like load.
func fetch[T abi.Struct](v *T, b []byte) { copy(abi.Bytes(v), b) }

// store writes as much of a struct as fits into b.
func store[T abi.Struct](b []byte, v T) { copy(b, abi.Bytes(&v)) }
