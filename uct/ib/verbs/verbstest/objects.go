//go:build linux

package verbstest

import (
	"slices"
	"syscall"
	"time"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

type pd struct {
	refs int
}

type mr struct {
	pd     *pd
	space  Space // nil: this process
	index  uint32
	start  uint64 // in the process
	iova   uint64 // for peers
	length uint64
	pinned int64 // bytes
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
	mr     *mr // nil while it opens nothing
	qp     *qp
	addr   uint64 // for peers
	base   uint64 // for the region
	length uint64
	access uint32
}

type cq struct {
	f        *file
	queue    compQueue
	cqe      uint32 // that there is room for
	user     uint64
	desc     abi.CompEventDesc // that names it
	channel  *mailbox          // nil for none
	armed    uint8
	dead     bool
	overruns bool // nobody looks whether there is room
	refs     int
	events   uint32
}

// How a completion queue is armed.
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
	pd  *pd
	num uint32
	way way
}

type qp struct {
	f       *file
	pd      *pd
	handle  uint32
	num     uint32
	typ     uint32
	user    uint64
	cap     abi.QpCap
	sigAll  bool
	send    *cq
	recv    *cq
	srq     *srq
	sq      sendQueue
	rq      recvQueue    // nil: receives are shared
	attr    abi.ModifyQp // what MODIFY_QP has set
	way     way          // that attr.Dest names
	retries uint8
	rnr     uint8
	later   time.Time // when it is tried again that waits; see Fabric.Serve
	trip    trip
	groups  map[[16]byte]bool // of multicast

	in         *line // of the scheduler, nil for none
	prev, next *qp   // in that
}

// destroy ends an object that nothing refers to.
func (f *file) destroy(h uint32) syscall.Errno {
	switch o := f.objects[h].(type) {
	case *pd:
		if o.refs > 0 {
			return syscall.EBUSY
		}
	case *mr:
		for _, w := range f.k.mws {
			if w.mr == o {
				return syscall.EINVAL // as rdma_rxe
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

// destroyAll ends all objects. Lock held.
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
