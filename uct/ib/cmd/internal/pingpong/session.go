//go:build linux

package pingpong

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/cmd/internal/ibtool"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// session is one run of a tool.
type session struct {
	tool   *Tool
	opts   *options
	dev    *verbs.Context
	port   ibtool.Port
	pd     *verbs.PD
	cq     *verbs.CQ
	srq    *verbs.SRQ // shared receive queue; nil: the queue pair has its own
	qps    []*verbs.QP
	ah     *verbs.AH // UD only
	memory []byte
	mr     *verbs.MR // memory region of the field memory
	in     []byte    // start of memory: the last received message; for UD with the GRH in front
	out    []byte    // message to send, from outAt on; a part of in, except at a client with -c
	outAt  int
	recvs  []verbs.RecvWR
	sends  [1]verbs.SendWR
	wc     [2]verbs.WC
	local  []dest
	remote []dest
}

// qkey is the Q_Key of the C tools.
const qkey = 0x11111111

// pageSize is the distance in bytes between the bytes that a client with -c sets to zero.
const pageSize = 4096

func (t *Tool) newSession(o *options, open opener) (s *session, err error) {
	s = &session{tool: t, opts: o}
	if s.dev, err = open(o.device); err != nil {
		return nil, err
	}
	for _, step := range []func() error{s.findPort, s.register, s.create} {
		if err := step(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *session) close() error {
	if err := s.dev.Close(); err != nil {
		return err // the device may still be writing to the memory
	}
	if s.memory == nil {
		return nil
	}
	return arena.Unmap(s.memory)
}

// findPort queries the port and checks the options against it.
func (s *session) findPort() (err error) {
	if s.port, err = ibtool.FindPort(s.dev, s.opts.ibPort, s.opts.gidIndex); err != nil {
		return err
	}
	most := int(s.port.MaxMsgSize)
	if s.tool.typ == verbs.UD {
		most = s.port.ActiveMTU.Bytes()
	}
	if s.opts.size > most {
		return fmt.Errorf("a message of %d bytes, the port takes %d: %w", s.opts.size, most, ucs.ErrExceedsLimit)
	}
	return nil
}

// grh returns the room for a GRH in front of a received message, in bytes.
func (s *session) grh() int {
	if s.tool.typ == verbs.UD {
		return verbs.GRHLength
	}
	return 0
}

// register allocates and registers the message buffers. With -c it fills the receive buffer so that
// verify fails if no message arrives.
func (s *session) register() (err error) {
	access := verbs.AccessLocalWrite
	if s.opts.onDemand {
		attr, err := s.dev.QueryDevice()
		if err != nil {
			return err
		}
		need := verbs.ODPSend | verbs.ODPRecv
		if s.tool.shared {
			need = verbs.ODPSend | verbs.ODPSRQRecv
		}
		if attr.ODP.General&verbs.ODPSupport == 0 || attr.ODP.RC&need != need {
			return fmt.Errorf("-o: %s cannot send and receive with on-demand paging: %w", s.dev.Name(), ucs.ErrUnsupported)
		}
		access |= verbs.AccessOnDemand
	}
	size, grh := s.opts.size, s.grh()
	first := grh + size
	if s.memory, err = arena.Map(max(1, first+size), arena.Options{}); err != nil {
		return err
	}
	b := s.memory
	s.in, s.out, s.outAt = b[:first], b[grh:first], grh
	for i := range b {
		b[i] = s.tool.fill
	}
	if s.opts.check {
		for i := range s.in {
			s.in[i] = ^s.tool.fill
		}
		if s.opts.server != "" {
			s.out, s.outAt = b[first:first+size], first
			for i := 0; i < size; i += pageSize {
				s.out[i] = 0
			}
		}
	}
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	s.mr, err = s.pd.RegMR(b, access)
	return err
}

// create makes the queues and posts receives.
func (s *session) create() (err error) {
	o := s.opts
	var channel *verbs.CompChannel
	if o.events {
		if channel, err = s.dev.CreateCompChannel(); err != nil {
			return err
		}
	}
	if s.cq, err = s.dev.CreateCQ(o.rxDepth+o.qps, channel, 0); err != nil {
		return err
	}
	attr := verbs.QPInitAttr{Type: s.tool.typ, SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}
	if s.tool.shared {
		if s.srq, err = s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: o.rxDepth, MaxSGE: 1}); err != nil {
			return err
		}
		attr.SRQ = s.srq
	} else {
		attr.Cap.MaxRecvWR, attr.Cap.MaxRecvSGE = o.rxDepth, 1
	}
	for range o.qps {
		q, err := s.pd.CreateQP(&attr)
		if err != nil {
			return err
		}
		if err := q.Init(&verbs.QPAttr{Port: uint8(o.ibPort), QKey: qkey}); err != nil {
			return err
		}
		s.qps = append(s.qps, q)
		s.local = append(s.local, dest{lid: s.port.LID, qpn: q.QPN(), psn: verbs.PSN(rand.Uint32N(1 << 24)), gid: s.port.GID.GID})
	}
	s.requests()
	return s.postRecv(o.rxDepth)
}

// requests makes the work requests, which are posted repeatedly.
func (s *session) requests() {
	s.recvs = make([]verbs.RecvWR, min(s.opts.rxDepth, 64))
	var into []verbs.SGE
	if len(s.in) > 0 {
		into = []verbs.SGE{s.mr.SGE(0, len(s.in))}
	}
	for i := range s.recvs {
		s.recvs[i] = verbs.RecvWR{ID: recvID, SGList: into}
	}
	w := &s.sends[0]
	*w = verbs.SendWR{ID: sendID, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, RemoteQKey: qkey}
	switch n := len(s.out); {
	case n == 0: // an SGE of 0 bytes means 2 GiB to some devices
	case n <= s.qps[0].Cap().MaxInline:
		w.Flags |= verbs.SendInline
		w.Inline = [][]byte{s.out}
	default:
		w.SGList = []verbs.SGE{s.mr.SGE(s.outAt, n)}
	}
}

// connect connects the queue pairs to their peers.
func (s *session) connect(remote []dest) error {
	s.remote = remote
	for i, q := range s.qps {
		d := remote[i]
		path, err := s.port.To(d.gid, d.lid, uint8(s.opts.sl))
		if err != nil {
			return err
		}
		err = q.Connect(&verbs.QPAttr{AH: path, PathMTU: s.opts.mtu, DestQPN: d.qpn, RQPSN: d.psn, SQPSN: s.local[i].psn,
			MaxRdAtomic: 1, MaxDestRdAtomic: 1, MinRNRTimer: 12, Timeout: 16, RetryCount: 6, RNRRetry: 7})
		if err != nil {
			return err
		}
		if s.tool.typ == verbs.UD {
			if s.ah, err = s.pd.CreateAH(&path); err != nil {
				return err
			}
			s.sends[0].AH, s.sends[0].RemoteQPN = s.ah, d.qpn
		}
	}
	return nil
}
