package verbs

// Soundness: a ring is a mapping that Go's runtime does not manage and that stays
// until unmap. Its header is read once, when it is mapped, and checked against the
// length of the mapping; every later access is to the two index words, by atomics,
// and to slot i&mask of the size found then. A slot belongs to one side at a time:
// the index that hands it over is stored after its bytes and loaded before them.

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
)

const rxeHeader = int(unsafe.Sizeof(abi.RxeQueueBuf{}))

// rxeRing is one ring; struct rxe_queue_buf.
type rxeRing struct {
	file uverbs.File
	mem  []byte
	data unsafe.Pointer
	log2 uint32
	mask uint32
	own  uint32 // the index this side writes
	peer uint32 // the other, when it was last looked at
}

// mmap maps the ring that the kernel has named, with elements of at least size
// bytes.
func (r *rxeRing) mmap(f uverbs.File, mi abi.Mminfo, size int) error {
	if int(mi.Size) < rxeHeader || int64(mi.Size) > 1<<31-1 {
		return fmt.Errorf("verbs: %s: a ring of %d bytes: %w", f.Name(), mi.Size, ucs.ErrIO)
	}
	mem, errno := f.Mmap(mi.Offset, int(mi.Size))
	if errno != 0 {
		return &uverbs.Error{Device: f.Name(), Call: "mmap", Errno: errno}
	}
	h := (*abi.RxeQueueBuf)(unsafe.Pointer(unsafe.SliceData(mem)))
	log2, mask := h.Log2ElemSize, h.IndexMask
	if log2 > 20 || 1<<log2 < size || mask&(mask+1) != 0 || uint64(rxeHeader)+(uint64(mask)+1)<<log2 > uint64(len(mem)) {
		f.Munmap(mem)
		return fmt.Errorf("verbs: %s: a ring of %d bytes with elements of 2^%d and mask %#x: %w", f.Name(), len(mem), log2, mask, ucs.ErrIO)
	}
	r.file, r.mem, r.log2, r.mask = f, mem, log2, mask
	r.data = unsafe.Add(unsafe.Pointer(h), rxeHeader)
	return nil
}

func (r *rxeRing) unmap() {
	if r.mem != nil {
		r.file.Munmap(r.mem)
		*r = rxeRing{}
	}
}

func (r *rxeRing) header() *abi.RxeQueueBuf {
	return (*abi.RxeQueueBuf)(unsafe.Pointer(unsafe.SliceData(r.mem)))
}

// slot is the memory of element i.
func (r *rxeRing) slot(i uint32) unsafe.Pointer {
	return unsafe.Add(r.data, uintptr(i&r.mask)<<r.log2)
}

// room reports whether a producer has a slot left at own.
func (r *rxeRing) room() bool {
	next := (r.own + 1) & r.mask
	if next != r.peer {
		return true
	}
	r.peer = atomic.LoadUint32(&r.header().ConsumerIndex) & r.mask
	return next != r.peer
}

// held counts the slots of a producer that the other side has not taken yet.
func (r *rxeRing) held() int {
	if r.mem == nil {
		return 0
	}
	return int((r.own - atomic.LoadUint32(&r.header().ConsumerIndex)) & r.mask)
}

// publish hands the slots before own to the kernel.
func (r *rxeRing) publish() {
	uverbs.RaceSent()
	atomic.StoreUint32(&r.header().ProducerIndex, r.own)
}

// rxeSendQueue is the ring of sends of a queue pair.
type rxeSendQueue struct {
	ring   rxeRing
	pd     *PD
	typ    QPType
	sges   int
	inline int
}

const (
	rxeSendSize = int(unsafe.Sizeof(abi.RxeSendWqe{}))
	rxeRecvSize = int(unsafe.Sizeof(abi.RxeRecvWqe{}))
	rxeSGESize  = int(unsafe.Sizeof(abi.RxeSge{}))
)

func (s *rxeSendQueue) mmap(f uverbs.File, mi abi.Mminfo, q *QP) error {
	s.pd, s.typ, s.sges, s.inline = q.pd, q.typ, q.cap.MaxSendSGE, q.cap.MaxInline
	return s.ring.mmap(f, mi, rxeSendSize+max(s.sges*rxeSGESize, s.inline))
}

// post fills slots and hands them to the kernel, all at once.
func (s *rxeSendQueue) post(wrs []SendWR) (int, error) {
	for i := range wrs {
		if !s.ring.room() {
			s.ring.publish()
			return i, errQueueFull
		}
		if err := s.fill(&wrs[i]); err != nil {
			s.ring.publish()
			return i, err
		}
		s.ring.own = (s.ring.own + 1) & s.ring.mask
	}
	s.ring.publish()
	return len(wrs), nil
}

// fill writes one request into the slot at own.
func (s *rxeSendQueue) fill(wr *SendWR) error {
	if wr.Flags&^sendFlags != 0 {
		return errFlags
	}
	p := s.ring.slot(s.ring.own)
	w := (*abi.RxeSendWqe)(p)
	*w = abi.RxeSendWqe{} // the kernel goes on where its last request left off otherwise
	w.Wr.WrId = wr.ID
	w.Wr.Opcode = uint32(wr.Opcode)
	w.Wr.SendFlags = uint32(wr.Flags)
	fetches := false
	switch wr.Opcode {
	case WRSend:
	case WRSendWithImm:
		w.Wr.Ex = swap32(wr.Imm)
	case WRRDMAWrite, WRRDMARead, WRRDMAWriteWithImm:
		if s.typ == UD || wr.Opcode == WRRDMARead && s.typ != RC {
			return errOpcode
		}
		fetches = wr.Opcode == WRRDMARead
		if wr.Opcode == WRRDMAWriteWithImm {
			w.Wr.Ex = swap32(wr.Imm)
		}
		rdma := (*abi.RxeRdmaWr)(unsafe.Pointer(&w.Wr.Wr))
		rdma.RemoteAddr, rdma.Rkey = wr.RemoteAddr, uint32(wr.RKey)
		w.Iova = wr.RemoteAddr
	case WRAtomicCmpAndSwp, WRAtomicFetchAndAdd:
		if s.typ != RC {
			return errOpcode
		}
		if wr.RemoteAddr%8 != 0 || len(wr.SGList) != 1 || wr.SGList[0].Length != 8 {
			return errAtomic
		}
		fetches = true
		a := (*abi.RxeAtomicWr)(unsafe.Pointer(&w.Wr.Wr))
		a.RemoteAddr, a.CompareAdd, a.Swap, a.Rkey = wr.RemoteAddr, wr.CompareAdd, wr.Swap, uint32(wr.RKey)
		w.Iova = wr.RemoteAddr
	case WRSendWithInv, WRLocalInv:
		if s.typ != RC {
			return errOpcode
		}
		w.Wr.Ex = uint32(wr.InvalidateKey)
	case WRBindMW:
		return s.bind(w, wr.Bind)
	default:
		return errOpcode
	}
	if s.typ == UD {
		if wr.AH == nil || wr.AH.pd != s.pd || wr.AH.num == 0 {
			return errNoAH
		}
		ud := (*abi.RxeUdWr)(unsafe.Pointer(&w.Wr.Wr))
		ud.RemoteQpn, ud.RemoteQkey, ud.AhNum = uint32(wr.RemoteQPN), uint32(wr.RemoteQKey), wr.AH.num
	}
	tail := unsafe.Add(p, rxeSendSize)
	if wr.Flags&SendInline == 0 {
		return gather(&w.Dma, tail, wr.SGList, s.sges)
	}
	if fetches {
		return errInlineWhat
	}
	dst := unsafe.Slice((*byte)(tail), s.inline)
	n := 0
	for _, b := range wr.Inline {
		if len(b) > len(dst)-n {
			return errInlineLong
		}
		n += copy(dst[n:], b)
	}
	w.Dma.Length, w.Dma.Resid = uint32(n), uint32(n)
	return nil
}

// bind writes what a request for a memory window has instead of data.
func (s *rxeSendQueue) bind(w *abi.RxeSendWqe, b *MWBind) error {
	if s.typ == UD || b == nil || b.MW == nil || b.MR == nil || b.MW.pd != s.pd || b.MR.pd != s.pd || !b.MR.has(b.Addr, b.Length) {
		return errNoMW
	}
	key := b.MW.nextKey()
	mw := (*abi.RxeMwWr)(unsafe.Pointer(&w.Wr.Wr))
	*mw = abi.RxeMwWr{Addr: b.Addr, Length: b.Length, MrLkey: uint32(b.MR.lkey), MwRkey: b.MW.rkey.Load(), Rkey: key, Access: uint32(b.Access)}
	b.MW.rkey.Store(key)
	return nil
}

// gather writes a list of at most most pieces behind d.
func gather(d *abi.RxeDmaInfo, tail unsafe.Pointer, list []SGE, most int) error {
	if len(list) > most {
		return errManySGE
	}
	dst := unsafe.Slice((*abi.RxeSge)(tail), len(list))
	total := uint64(0)
	for i := range list {
		s := &list[i]
		dst[i].Addr, dst[i].Length, dst[i].Lkey = s.Addr, s.Length, uint32(s.LKey)
		total += uint64(s.Length)
	}
	if total > 1<<31 {
		return errTooLong
	}
	d.Length, d.Resid, d.NumSge = uint32(total), uint32(total), uint32(len(list))
	return nil
}

// rxeRecvQueue is a ring of receives, of a queue pair or shared.
type rxeRecvQueue struct {
	ring rxeRing
	sges int
}

func (q *rxeRecvQueue) mmap(f uverbs.File, mi abi.Mminfo, sges int) error {
	q.sges = sges
	if err := q.ring.mmap(f, mi, rxeRecvSize+sges*rxeSGESize); err != nil {
		return err
	}
	// A ring that takes the place of another begins with what was in that.
	q.ring.own = atomic.LoadUint32(&q.ring.header().ProducerIndex) & q.ring.mask
	return nil
}

// post fills slots and hands them to the kernel, which looks for them itself.
func (q *rxeRecvQueue) post(wrs []RecvWR) (int, error) {
	if q.ring.mem == nil {
		return 0, errNoRQ
	}
	for i := range wrs {
		if !q.ring.room() {
			q.ring.publish()
			return i, errQueueFull
		}
		p := q.ring.slot(q.ring.own)
		w := (*abi.RxeRecvWqe)(p)
		*w = abi.RxeRecvWqe{WrId: wrs[i].ID}
		if err := gather(&w.Dma, unsafe.Add(p, rxeRecvSize), wrs[i].SGList, q.sges); err != nil {
			q.ring.publish()
			return i, err
		}
		q.ring.own = (q.ring.own + 1) & q.ring.mask
	}
	q.ring.publish()
	return len(wrs), nil
}

// poll takes completions out of the ring.
func (r *rxeCQ) poll(wc []WC) int {
	ring := &r.ring
	if ring.mem == nil {
		return 0
	}
	n := 0
	for n < len(wc) {
		if ring.own == ring.peer {
			ring.peer = atomic.LoadUint32(&ring.header().ProducerIndex) & ring.mask
			if ring.own == ring.peer {
				break
			}
		}
		c := (*abi.Wc)(ring.slot(ring.own))
		w := &wc[n]
		w.ID, w.Status, w.Opcode, w.VendorErr = c.WrId, WCStatus(c.Status), WCOpcode(c.Opcode), c.VendorErr
		w.ByteLen, w.QPN, w.SrcQPN, w.Flags = c.ByteLen, QPN(c.QpNum), QPN(c.SrcQp), WCFlags(c.WcFlags)
		w.PKeyIndex, w.SLID, w.SL, w.DLIDPathBits = c.PkeyIndex, LID(c.Slid), c.Sl, c.DlidPathBits
		w.Imm, w.InvalidatedRKey = 0, 0
		if w.Flags&WCWithImm != 0 {
			w.Imm = swap32(c.Ex)
		} else if w.Flags&WCWithInv != 0 {
			w.InvalidatedRKey = RKey(c.Ex)
		}
		n++
		ring.own = (ring.own + 1) & ring.mask
	}
	if n > 0 {
		uverbs.RaceReceived()
		atomic.StoreUint32(&ring.header().ConsumerIndex, ring.own)
	}
	return n
}
