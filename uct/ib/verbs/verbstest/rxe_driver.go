//go:build linux

package verbstest

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// The driver of rdma_rxe: the kernel makes the queues, and the program maps them.

// rxe implements personality for rdma_rxe.
type rxe struct{}

func (rxe) driver() (number uint32, abi int)           { return Driver, ABIVersion }
func (rxe) open(f *file) driver                        { return newRxeFile(f) }
func (rxe) limits() Limits                             { return rxeLimits }
func (rxe) adapter(*Kernel, func(string)) string       { return "" }
func (rxe) identity(file func(string, string, ...any)) { file("fw_ver", "") }
func (rxe) cqFlags() uint32                            { return 0 }
func (rxe) packetKind(*packet) uint8                   { return 0 }

// failuresWakeSolicited implements personality, like rxe_cq_post of
// drivers/infiniband/sw/rxe/rxe_cq.c.
func (rxe) failuresWakeSolicited() bool { return false }
func (rxe) polls() bool                 { return false }
func (rxe) attr(*abi.ExQueryDeviceResp) {}

// Driver is the driver number of rdma_rxe devices, ABIVersion the version of their ABI.
const (
	Driver     = abi.RDMA_DRIVER_RXE
	ABIVersion = abi.RXE_UVERBS_ABI_VERSION
)

var rxeLimits = Limits{QPs: 0xffff0, WR: maxWR, SGE: maxSGE, Inline: maxInline, CQE: maxCQE, SRQs: 0x7fff, SRQWR: maxWR, RdAtomic: maxRdAtomic, MemLock: 1 << 62}

func (*rxeFile) has(uint32) bool           { return true }
func (*rxeFile) context(uhw) syscall.Errno { return 0 }
func (*rxeFile) device(uhw)                {}
func (*rxeFile) newPD(uhw)                 {}
func (*rxeFile) look() bool                { return false }

// caps returns the capabilities that newQP has set.
func (*rxeFile) caps(q *qp) abi.QpCap { return q.cap }

func (*rxeFile) newMW(typ uint8) syscall.Errno {
	if typ != 2 {
		return syscall.EOPNOTSUPP
	}
	return 0
}

func (*rxeFile) newAH(a *ah, d uhw) syscall.Errno {
	store(d.out, abi.RxeCreateAhResp{AhNum: a.num})
	return 0
}

func (x *rxeFile) newCQ(c *cq, cqe uint32, d uhw) syscall.Errno {
	if len(d.out) < 16 {
		return syscall.EINVAL
	}
	r, errno := x.newRing(cqe, 128)
	if errno != 0 {
		return errno
	}
	c.queue, c.cqe = &rxeCQ{x, r}, r.mask
	store(d.out, abi.RxeCreateCqResp{Mi: x.offer(r)})
	return 0
}

func (x *rxeFile) resizeCQ(c *cq, cqe uint32, d uhw) syscall.Errno {
	q := c.queue.(*rxeCQ)
	unread := q.ring.unread()
	if cqe < unread || len(d.out) < 16 {
		return syscall.EINVAL
	}
	bigger, errno := x.newRing(cqe, 128)
	if errno != 0 {
		return errno
	}
	for i := q.ring.index - unread; unread > 0; unread-- {
		copy(bigger.at(bigger.index), q.ring.at(i))
		bigger.produce()
		i++
	}
	x.drop(q.ring)
	q.ring, c.cqe = bigger, bigger.mask
	store(d.out, abi.RxeCreateCqResp{Mi: x.offer(bigger)})
	return 0
}

func (x *rxeFile) newSRQ(s *srq, wr uint32, d uhw) syscall.Errno {
	if len(d.out) < 24 {
		return syscall.EINVAL
	}
	r, errno := x.newRing(wr, recvWQESize+sgeSize*int(s.maxSGE))
	if errno != 0 {
		return errno
	}
	s.queue, s.maxWR = &rxeRQ{x, r, s.maxSGE}, r.mask
	store(d.out, abi.RxeCreateSrqResp{Mi: x.offer(r), SrqNum: s.num})
	return 0
}

func (x *rxeFile) resizeSRQ(s *srq, wr uint32, d uhw) syscall.Errno {
	q := s.queue.(*rxeRQ)
	held := q.waiting()
	if wr < held {
		return syscall.EINVAL
	}
	other, errno := x.newRing(wr, recvWQESize+sgeSize*int(s.maxSGE))
	if errno != 0 {
		return errno
	}
	mi := x.offer(other)
	if !x.f.memory().Write(load[abi.RxeModifySrqCmd](d.in).MmapInfoAddr, abi.Bytes(&mi)) {
		x.drop(other)
		return syscall.EFAULT
	}
	for i := range held {
		copy(other.at(i), q.ring.at(q.ring.index+i))
	}
	atomic.StoreUint32(&other.header().ProducerIndex, held)
	x.drop(q.ring)
	q.ring, s.maxWR = other, other.mask
	return 0
}

func (x *rxeFile) newQP(q *qp, d uhw) syscall.Errno {
	l := &x.f.k.cfg.Limits
	if len(d.out) < 32 || d.in != nil || int(q.cap.MaxSendSge) > l.SGE || int(q.cap.MaxRecvSge) > l.SGE || int(q.cap.MaxInlineData) > l.Inline {
		return syscall.EINVAL
	}
	// rdma_rxe reserves the same room for inline data and for pieces of memory, and reports the
	// ring sizes as queue sizes.
	extra := max(sgeSize*int(q.cap.MaxSendSge), int(q.cap.MaxInlineData))
	q.cap.MaxInlineData, q.cap.MaxSendSge = uint32(min(extra, l.Inline)), uint32(extra/sgeSize)
	sq, errno := x.newRing(max(q.cap.MaxSendWr, 1), sendWQESize+extra)
	if errno != 0 {
		return errno
	}
	q.cap.MaxSendWr = sq.mask
	var resp abi.RxeCreateQpResp
	if q.srq == nil {
		rq, errno := x.newRing(max(q.cap.MaxRecvWr, 1), recvWQESize+sgeSize*int(q.cap.MaxRecvSge))
		if errno != 0 {
			sq.free()
			return errno
		}
		resp.RqMi = x.offer(rq)
		q.cap.MaxRecvSge, q.cap.MaxRecvWr = uint32((1<<rq.log2-recvWQESize)/sgeSize), rq.mask
		q.rq = &rxeRQ{x, rq, q.cap.MaxRecvSge}
	}
	resp.SqMi = x.offer(sq)
	q.sq = &rxeSQ{x, sq, q}
	store(d.out, resp)
	return 0
}

// rxeFile is the kernel's half of the rdma_rxe driver for an open device.
type rxeFile struct {
	f       *file
	file    int              // file of all rings, if the program is another process; else -1
	regions map[uint64]*ring // rings that can be mapped, by offset
	next    uint64           // the next offset
}

func newRxeFile(f *file) *rxeFile {
	x := &rxeFile{f: f, file: -1, regions: make(map[uint64]*ring), next: 0x1000}
	if f.space != nil {
		if fd, err := sealedFile(0); err == nil {
			x.file = fd
		}
	}
	return x
}

// pages returns the file from which the program maps the rings. The program's mapping outlives the
// object, as in a kernel; the memory is freed with the file.
func (x *rxeFile) pages() int { return x.file }

func (x *rxeFile) close() {
	if x.file >= 0 {
		unix.Close(x.file)
	}
}

// newRing makes a queue of at least n elements of elem bytes.
func (x *rxeFile) newRing(n uint32, elem int) (*ring, syscall.Errno) {
	r, errno := newRing(n, elem, x.file, x.next)
	if errno == 0 {
		x.next += uint64(len(r.mem))
	}
	return r, errno
}

// offer allows the user to map a ring, and returns the offset and the length.
func (x *rxeFile) offer(r *ring) abi.Mminfo {
	x.regions[r.offset] = r
	return abi.Mminfo{Offset: r.offset, Size: uint32(len(r.mem))}
}

// drop frees a ring.
func (x *rxeFile) drop(r *ring) {
	delete(x.regions, r.offset)
	r.free()
}

// mmap maps a ring for the user; each ring can be mapped once.
func (x *rxeFile) mmap(offset uint64, length int) ([]byte, syscall.Errno) {
	r := x.regions[offset]
	if r == nil || r.fd < 0 || length <= 0 || length > len(r.mem) {
		return nil, syscall.EINVAL
	}
	b, err := unix.Mmap(r.fd, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	delete(x.regions, offset)
	unix.Close(r.fd)
	r.fd = -1
	if err != nil {
		return nil, syscall.ENOMEM
	}
	return b, 0
}
