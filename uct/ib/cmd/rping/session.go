//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// session is a connection with its queue pair and memory.
type session struct {
	p    *program
	conn *rdmacm.Conn
	pd   *verbs.PD
	ch   *verbs.CompChannel
	cq   *verbs.CQ
	qp   *verbs.QP
	recv *verbs.MR // buffer for received infos
	send *verbs.MR // buffer of infos to send
	rdma *verbs.MR // buffer into which texts are read (server) or written back (client)
	text *verbs.MR // buffer of the text that the client sends; only at the client

	infos []info // received and not processed yet
}

const (
	queueDepth = 16
	recvDepth  = 2
)

// newSession makes the objects of a connection. It takes ownership of conn: session.close closes
// it, and so does newSession if it fails.
func (p *program) newSession(conn *rdmacm.Conn) (*session, error) {
	s := &session{p: p, conn: conn}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) open() error {
	dev, err := s.p.sys.open(s.conn.Addr())
	if err != nil {
		return err
	}
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	s.p.debugf("created pd %p\n", s.pd)
	if s.ch, err = dev.CreateCompChannel(); err != nil {
		return err
	}
	s.p.debugf("created channel %p\n", s.ch)
	if s.cq, err = dev.CreateCQ(2*queueDepth, s.ch, 0); err != nil {
		return err
	}
	s.p.debugf("created cq %p\n", s.cq)
	s.qp, err = s.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: queueDepth, MaxRecvWR: recvDepth, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	s.p.debugf("created qp %#x\n", uint32(s.qp.QPN()))
	if s.p.ownQP {
		// The attributes that the connection manager would set.
		err = s.qp.Init(&verbs.QPAttr{Port: uint8(s.conn.Addr().Port)})
	} else {
		err = s.conn.ID().InitQP(s.qp)
	}
	if err != nil {
		return err
	}
	const remote = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	for _, m := range []struct {
		mr     **verbs.MR
		size   int
		access verbs.Access
	}{{&s.recv, infoLen, verbs.AccessLocalWrite}, {&s.send, infoLen, 0}, {&s.rdma, s.p.size, remote}, {&s.text, s.p.size, remote}} {
		if m.mr == &s.text && s.p.server {
			continue
		}
		if *m.mr, err = s.pd.RegMR(make([]byte, m.size), m.access); err != nil {
			return err
		}
	}
	s.p.debugf("allocated & registered buffers...\n")
	return s.postRecv()
}

// close closes all objects and the connection.
func (s *session) close() error {
	errs := []error{s.conn.Close()}
	if s.qp != nil {
		errs = append(errs, s.qp.Close())
	}
	for _, m := range []*verbs.MR{s.recv, s.send, s.rdma, s.text} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	if s.cq != nil {
		errs = append(errs, s.cq.Close())
	}
	if s.ch != nil {
		errs = append(errs, s.ch.Close())
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Close())
	}
	return errors.Join(errs...)
}

// play runs fn and then disconnects. When the connection ends, the context of fn ends. If fn fails
// after that, play returns the reason for the end of the connection, which is errDisconnected if
// the peer has disconnected.
func (s *session) play(ctx context.Context, fn func(context.Context) error) error {
	lasts, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan error)
	go func() {
		err := s.conn.Wait(lasts)
		if err == nil {
			s.disconnected()
			err = errDisconnected
		}
		cancel(err) // no effect if fn is done
		watched <- err
	}()
	err := fn(lasts)
	if cause := context.Cause(lasts); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	watch := <-watched
	end := s.conn.Disconnect(ctx)
	var other *rdmacm.EventError // an event other than the disconnection
	if end == nil && !errors.Is(watch, errDisconnected) && !errors.As(watch, &other) {
		s.disconnected()
	}
	if err == nil {
		err = end
	}
	return err
}

// disconnected prints what the C program prints when the connection ends.
func (s *session) disconnected() {
	side := "client"
	if s.p.server {
		side = "server"
	}
	s.p.errorf("%s DISCONNECT EVENT...\n", side)
}

func (s *session) postRecv() error {
	_, err := s.qp.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{s.recv.SGE(0, infoLen)}}})
	return err
}

// post posts a work request.
func (s *session) post(wr verbs.SendWR) error {
	wr.Flags = verbs.SendSignaled
	_, err := s.qp.PostSend([]verbs.SendWR{wr})
	return err
}

// sendRegion sends the address, key and length of a buffer to the peer.
func (s *session) sendRegion(m *verbs.MR) error {
	i := info{m.Addr(), m.RKey(), uint32(m.Len())}
	s.p.debugf("RDMA addr %x rkey %x len %d\n", i.addr, uint32(i.rkey), i.size)
	return s.goOn(i)
}

// goOn sends an info to the peer. The client takes an info of zeros as "go on".
func (s *session) goOn(i info) error {
	i.append(s.send.Bytes()[:0])
	return s.post(verbs.SendWR{Opcode: verbs.WRSend, SGList: []verbs.SGE{s.send.SGE(0, infoLen)}})
}

// wait waits until a request with an opcode has completed.
func (s *session) wait(ctx context.Context, op verbs.WCOpcode) error {
	for {
		seen, err := s.completions(ctx, op)
		if seen || err != nil {
			return err
		}
	}
}

// receive waits for the next info of the peer.
func (s *session) receive(ctx context.Context) (info, error) {
	for len(s.infos) == 0 {
		if _, err := s.completions(ctx, verbs.WCRecv); err != nil {
			return info{}, err
		}
	}
	i := s.infos[0]
	s.infos = s.infos[1:]
	return i, nil
}

// completions waits for completions, keeps the received infos and reports whether there was a
// completion with the opcode.
func (s *session) completions(ctx context.Context, op verbs.WCOpcode) (seen bool, err error) {
	var wc [4]verbs.WC
	n, err := s.cq.Wait(ctx, wc[:])
	for i := range wc[:n] {
		w := &wc[i]
		if w.Status != verbs.WCSuccess {
			if w.Status != verbs.WCWRFlushErr {
				s.p.errorf("cq completion failed status %d\n", uint32(w.Status))
			}
			return false, w.Err()
		}
		seen = seen || w.Opcode == op
		switch w.Opcode {
		case verbs.WCSend:
			s.p.debugf("send completion\n")
		case verbs.WCRDMARead:
			s.p.debugf("rdma read completion\n")
		case verbs.WCRDMAWrite:
			s.p.debugf("rdma write completion\n")
		case verbs.WCRecv:
			s.p.debugf("recv completion\n")
			if w.ByteLen > infoLen {
				return false, fmt.Errorf("received bogus data, size %d", w.ByteLen)
			}
			got, err := parseInfo(s.recv.Bytes()[:w.ByteLen])
			if err != nil {
				return false, err
			}
			if s.infos = append(s.infos, got); len(s.infos) > recvDepth {
				return false, errors.New("the peer sends out of turn")
			}
			if err := s.postRecv(); err != nil {
				return false, err
			}
		}
	}
	return seen, err
}
