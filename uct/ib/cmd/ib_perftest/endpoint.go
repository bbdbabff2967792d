//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/cmd/internal/ibtool"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

const (
	cacheLine = 64
	qkey      = 0x11111111 // DEF_QKEY, perftest_parameters.h
	rnrTimer  = 12         // MIN_RNR_TIMER, perftest_resources.h
	retries   = 7
)

// endpoint has the memory, queues and queue pair of one side. The first half of the memory is the
// source of sends and writes and the destination of reads; the second half is the target of the
// peer's sends, writes, atomics and reads.
type endpoint struct {
	name   string // name of the device
	dev    *verbs.Context
	attr   verbs.DeviceAttr
	port   ibtool.Port
	mtu    verbs.MTU
	inline int // largest length of inline messages, in bytes

	pd     *verbs.PD
	sendCQ *verbs.CQ
	recvCQ *verbs.CQ // the same as sendCQ, except in send tests
	qp     *verbs.QP
	ah     *verbs.AH // destination of datagrams
	buf    []byte
	mr     *verbs.MR
	half   int // offset of the second half of the memory
	cycle  int // bytes of the ring of message buffers
	line   int // bytes of a cache line
	local  keys
	remote keys
}

// fetches reports whether the test reads the peer's memory, by reads or atomics.
func (s *session) fetches() bool { return s.verb == verbRead || s.verb == verbAtomic }

// sends reports whether this side sends requests in a bandwidth test.
func (s *session) sends() bool { return s.peer.client || s.both }

// relaxed reports whether writes may become visible out of order. That is not allowed in a test
// that polls the last byte of a write.
func (s *session) relaxed() bool { return s.bw || s.verb != verbWrite }

// examine queries the device and its port, and chooses the MTU and the inline size. It fails if the
// port is not active, or if the device lacks atomics that the test needs.
func (s *session) examine() error {
	var err error
	if s.attr, err = s.dev.QueryDevice(); err != nil {
		return err
	}
	if s.port, err = ibtool.FindPort(s.dev, s.ibPort, s.gid); err != nil {
		return err
	}
	if s.port.State != verbs.PortActive {
		return fmt.Errorf("%s: port %d is %v: %w", s.name, s.ibPort, s.port.State, ucs.ErrUnreachable)
	}
	if s.fetches() && s.verb == verbAtomic && s.attr.AtomicCap == 0 {
		return fmt.Errorf("%s has no atomics: %w", s.name, ucs.ErrUnsupported)
	}
	s.mtu = s.port.ActiveMTU
	if m := mtuOf(s.wantMTU); m != 0 && m < s.mtu {
		s.mtu = m
	}
	s.inline = s.inlineSize()
	return nil
}

// vendorMellanox is the vendor ID of Mellanox devices, for which perftest has defaults of its own.
const vendorMellanox = 0x2c9

// inlineSize returns the length in bytes up to which messages are sent inline; ctx_set_max_inline,
// perftest_parameters.c.
func (s *session) inlineSize() int {
	switch {
	case s.wantInline >= 0:
		return s.wantInline
	case s.bw || s.attr.VendorID != vendorMellanox:
		return 0
	case s.verb == verbWrite:
		return 220
	case s.verb == verbSend && s.conn == verbs.UD:
		return 188
	case s.verb == verbSend:
		return 236
	}
	return 0
}

// reads returns how many reads and atomics of the peer this side accepts at once.
func (s *session) reads() uint16 {
	if !s.fetches() {
		return 1
	}
	most := min(s.attr.MaxQPRdAtom, 255)
	if s.outReads > 0 {
		most = min(most, s.outReads)
	}
	return uint16(most)
}

// fit limits the message size of a UD test to the MTU. It fails if -s asks for a larger size.
func (s *session) fit() error {
	if s.conn != verbs.UD || s.size <= s.mtu.Bytes() {
		return nil
	}
	if s.sized && !s.all {
		return fmt.Errorf("-s: a datagram of this port holds up to %v bytes: %w", s.mtu, ucs.ErrInvalidParam)
	}
	s.size = s.mtu.Bytes()
	return nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// create makes the memory, queues and queue pair of the test.
func (s *session) create() (err error) {
	s.half = roundUp(max(s.size+verbs.GRHLength, s.cycle), s.line)
	if s.buf, err = arena.Map(2*s.half, arena.Options{}); err != nil {
		return err
	}
	if s.relaxed() {
		pattern(s.buf[:s.half], 1)
		pattern(s.buf[s.half:], 2)
	}
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	peerMay := verbs.AccessRemoteWrite
	switch s.verb {
	case verbRead:
		access |= verbs.AccessRemoteRead
		peerMay = verbs.AccessRemoteRead
	case verbAtomic:
		access |= verbs.AccessRemoteAtomic
		peerMay = verbs.AccessRemoteAtomic
	}
	if s.relaxed() {
		access |= verbs.AccessRelaxedOrdering
	}
	if s.mr, err = s.pd.RegMR(s.buf, access); err != nil {
		return err
	}
	if s.sendCQ, err = s.newCQ(s.txDepth); err != nil {
		return err
	}
	s.recvCQ = s.sendCQ
	if s.verb == verbSend {
		if s.recvCQ, err = s.newCQ(s.rxDepth); err != nil {
			return err
		}
	}
	s.qp, err = s.pd.CreateQP(&verbs.QPInitAttr{Type: s.conn, SendCQ: s.sendCQ, RecvCQ: s.recvCQ,
		Cap: verbs.QPCap{MaxSendWR: s.txDepth, MaxRecvWR: s.rxDepth, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: s.inline}})
	if err != nil {
		return err
	}
	s.local = keys{lid: s.port.LID, outReads: s.reads(), qpn: s.qp.QPN(), psn: verbs.PSN(rand.Uint32() & (1<<24 - 1)),
		rkey: s.mr.RKey(), addr: s.mr.Addr() + uint64(s.half), gid: s.port.GID.GID}
	return s.qp.Init(&verbs.QPAttr{Port: uint8(s.ibPort), Access: peerMay, QKey: qkey})
}

// pattern fills memory with a known value for every offset.
func pattern(b []byte, salt byte) {
	for i := range b {
		b[i] = salt + byte(i*7) + byte(i>>8)
	}
}

// newCQ makes a completion queue. With -e the queue has a completion channel of its own to wait on.
func (s *session) newCQ(depth int) (*verbs.CQ, error) {
	var ch *verbs.CompChannel
	if s.events {
		var err error
		if ch, err = s.dev.CreateCompChannel(); err != nil {
			return nil, err
		}
	}
	return s.dev.CreateCQ(depth, ch, 0)
}

// join connects the queue pair to the peer's, and makes the address handle of a UD test;
// ctx_connect, perftest_resources.c.
func (s *session) join() error {
	if s.peer.gid && s.local.gid.Addr().Is4() != s.remote.gid.Addr().Is4() {
		return fmt.Errorf("%v and %v are GIDs of different networks, select one with -x: %w", s.local.gid, s.remote.gid, ucs.ErrUnreachable)
	}
	path, err := s.port.To(s.remote.gid, s.remote.lid, 0)
	if err != nil {
		return err
	}
	most := max(min(s.attr.MaxQPInitRdAtom, 255), 1)
	err = s.qp.Connect(&verbs.QPAttr{PathMTU: s.mtu, AH: path, DestQPN: s.remote.qpn, RQPSN: s.remote.psn, SQPSN: s.local.psn,
		MaxDestRdAtomic: uint8(s.local.outReads), MaxRdAtomic: uint8(min(int(s.remote.outReads), most)),
		MinRNRTimer: rnrTimer, Timeout: s.timeout, RetryCount: retries, RNRRetry: retries})
	if err == nil && s.conn == verbs.UD {
		s.ah, err = s.pd.CreateAH(&path)
	}
	return err
}

// destroy closes the device and frees the memory.
func (s *session) destroy() error {
	err := s.dev.Close()
	if s.buf != nil {
		err = errors.Join(err, arena.Unmap(s.buf))
	}
	return err
}

// ring is a cycle of message buffers in an endpoint's memory, step bytes apart, so that consecutive
// small messages use different cache lines.
type ring struct {
	step, slots int
}

// ringOf returns the ring for messages of a size. Large messages, and those of latency tests, share
// one buffer.
func (s *session) ringOf(size int) ring {
	if !s.bw || size > s.cycle/2 {
		return ring{0, 1}
	}
	step := roundUp(size, s.line)
	return ring{step, max(s.cycle/step, 1)}
}

// at returns the offset of message i in bytes.
func (r ring) at(i int) int { return i % r.slots * r.step }

// requests returns the work requests for messages of a size that one call posts (-l).
func (s *session) requests(size int) []verbs.SendWR {
	r := s.ringOf(size)
	wr := make([]verbs.SendWR, s.postList)
	list := make([]verbs.SGE, s.postList)
	inline := make([][]byte, s.postList)
	for i := range wr {
		w := &wr[i]
		w.Opcode = [...]verbs.WROpcode{verbs.WRSend, verbs.WRRDMAWrite, verbs.WRRDMARead, verbs.WRAtomicFetchAndAdd}[s.verb]
		w.SGList, w.Inline = list[i:i+1], inline[i:i+1]
		w.RKey, w.AH, w.RemoteQPN, w.RemoteQKey = s.remote.rkey, s.ah, s.remote.qpn, qkey
		if s.verb == verbAtomic {
			w.CompareAdd = 1
			if s.swap {
				w.Opcode, w.CompareAdd = verbs.WRAtomicCmpAndSwp, 0
			}
		}
		if size <= s.inline && !s.fetches() {
			w.Flags |= verbs.SendInline
		}
		if (i+1)%s.cqMod == 0 {
			w.Flags |= verbs.SendSignaled
		}
		s.place(w, r.at(i), size)
	}
	return wr
}

// place sets the local and the remote address of a request.
func (s *session) place(w *verbs.SendWR, off, size int) {
	w.SGList[0] = s.mr.SGE(off, size)
	w.Inline[0] = s.buf[off : off+size]
	w.RemoteAddr = s.remote.addr + uint64(off)
}

// receive sets list[0] to the buffer that receives a message of a size, at an offset of the second
// half of the memory.
func (s *session) receive(list []verbs.SGE, off, size int) {
	if s.conn == verbs.UD {
		size += verbs.GRHLength
	}
	list[0] = s.mr.SGE(s.half+off, size)
}

// receives returns the ring of receive buffers for messages of a size. Buffers of datagrams have
// room for the global route header in front.
func (s *session) receives(size int) ring {
	if s.conn == verbs.UD {
		size += verbs.GRHLength
	}
	return s.ringOf(size)
}

// postReceives fills the receive queue for messages of a size and returns the number of receives.
func (s *session) postReceives(size int) (int, error) {
	r := s.receives(size)
	wr := []verbs.RecvWR{{SGList: make([]verbs.SGE, 1)}}
	for i := range s.rxDepth {
		s.receive(wr[0].SGList, r.at(i), size)
		if _, err := s.qp.PostRecv(wr); err != nil {
			return i, err
		}
	}
	return s.rxDepth, nil
}
