//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

func (p *program) listen() (*rdmacm.Listener, error) {
	l, err := rdmacm.Listen(p.addr, p.config())
	if err != nil {
		return nil, p.complain("rdma_bind_addr", err)
	}
	p.debugf("rdma_bind_addr successful\nrdma_listen\n")
	return l, nil
}

// serve serves one client.
func (p *program) serve(ctx context.Context) error {
	l, err := p.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	conn, err := l.GetRequest(ctx)
	if err != nil {
		return p.complain("wait for CONNECT_REQUEST", err)
	}
	return p.answer(ctx, conn)
}

// servePersistent serves clients, many at once, until ctx ends.
func (p *program) servePersistent(ctx context.Context) error {
	l, err := p.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.GetRequest(ctx)
		switch {
		case errors.Is(err, ucs.ErrNoResource), errors.Is(err, ucs.ErrNoMemory): // one connection too many, which is refused
			p.complain("wait for CONNECT_REQUEST", err)
			continue
		case err != nil:
			return p.complain("wait for CONNECT_REQUEST", err)
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			p.answer(ctx, conn)
		}()
	}
}

// answer serves a client until it disconnects.
func (p *program) answer(ctx context.Context, conn *rdmacm.Conn) error {
	s, err := p.newSession(conn)
	if err != nil {
		return p.complain("setup_qp failed", err)
	}
	defer s.close()
	p.debugf("accepting client connection request\n")
	if err := conn.Accept(ctx, s.qp, nil); err != nil {
		return p.complain("connect error", err)
	}
	if err := s.play(ctx, s.pongs); !errors.Is(err, errDisconnected) {
		return p.complain("rping server failed", err)
	}
	return nil
}

// pongs is the server's loop: it reads a text from the client's memory and writes it to the buffer
// that the client then offers. It ends when the connection ends.
func (s *session) pongs(ctx context.Context) error {
	for {
		from, err := s.peer(ctx)
		if err != nil {
			return err
		}
		err = s.post(verbs.SendWR{Opcode: verbs.WRRDMARead, RemoteAddr: from.addr, RKey: from.rkey,
			SGList: []verbs.SGE{s.rdma.SGE(0, int(from.size))}})
		if err != nil {
			return err
		}
		s.p.debugf("server posted rdma read req\n")
		if err := s.wait(ctx, verbs.WCRDMARead); err != nil {
			return err
		}
		s.p.debugf("server received read complete\n")
		text := s.rdma.Bytes()[:from.size]
		n := length(text)
		if s.p.verbose {
			s.p.printf("server ping data: %s\n", text[:n])
		}
		if err := s.goOn(info{}); err != nil {
			return err
		}
		s.p.debugf("server posted go ahead\n")
		to, err := s.peer(ctx)
		if err != nil {
			return err
		}
		err = s.post(verbs.SendWR{Opcode: verbs.WRRDMAWrite, RemoteAddr: to.addr, RKey: to.rkey,
			SGList: []verbs.SGE{s.rdma.SGE(0, min(n+1, len(text), int(to.size)))}})
		if err != nil {
			return err
		}
		if err := s.wait(ctx, verbs.WCRDMAWrite); err != nil {
			return err
		}
		s.p.debugf("server rdma write complete\n")
		if err := s.goOn(info{}); err != nil {
			return err
		}
		s.p.debugf("server posted go ahead\n")
	}
}

// peer waits for the description of a buffer of the client, and checks its size.
func (s *session) peer(ctx context.Context) (info, error) {
	i, err := s.receive(ctx)
	if err != nil {
		return i, err
	}
	s.p.debugf("Received rkey %x addr %x len %d from peer\nserver received sink adv\n", uint32(i.rkey), i.addr, i.size)
	if i.size == 0 || int64(i.size) > int64(s.p.size) {
		return i, fmt.Errorf("the client's buffer has %d bytes, the limit is %d (-S)", i.size, s.p.size)
	}
	return i, nil
}
