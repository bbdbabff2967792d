//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// client runs the client: it connects, exchanges pings and disconnects.
func (p *program) client(ctx context.Context) error {
	conn, err := rdmacm.Resolve(ctx, p.addr, p.config())
	if err != nil {
		return p.complain("waiting for addr/route resolution", err)
	}
	p.debugf("rdma_resolve_addr - rdma_resolve_route successful\n")
	s, err := p.newSession(conn)
	if err != nil {
		return p.complain("setup_qp failed", err)
	}
	defer s.close()
	if err := conn.Connect(ctx, s.qp, param()); err != nil {
		return p.complain("connect error", err)
	}
	p.debugf("rdma_connect successful\n")
	if err := s.play(ctx, s.pings); err != nil {
		return p.complain("rping client failed", err)
	}
	return nil
}

// pings is the client's loop: it offers a text to the server, waits until the server has read it
// and written it back, and with -V compares the two.
func (s *session) pings(ctx context.Context) error {
	text, back := s.text.Bytes(), s.rdma.Bytes()
	for ping := 0; s.p.count == 0 || ping < s.p.count; ping++ {
		fill(text, ping)
		if err := s.sendRegion(s.text); err != nil {
			return err
		}
		if _, err := s.receive(ctx); err != nil {
			return err
		}
		if err := s.sendRegion(s.rdma); err != nil {
			return err
		}
		if _, err := s.receive(ctx); err != nil {
			return err
		}
		if s.p.validate && !bytes.Equal(text, back) {
			s.p.errorf("data mismatch!\n")
			return errors.New("data mismatch")
		}
		if s.p.verbose {
			s.p.printf("ping data: %s\n", back[:length(back)])
		}
	}
	return nil
}

// fill writes the text of a ping to b: a head with its number, then letters that begin with a
// different one in each ping, and a zero byte at the end.
func fill(b []byte, ping int) {
	const first, last = 'A', 'z'
	n := copy(b, fmt.Sprintf("rdma-ping-%d: ", ping))
	c := byte(first + ping%(last-first+1))
	for i := n; i < len(b); i++ {
		b[i] = c
		if c++; c > last {
			c = first
		}
	}
	b[len(b)-1] = 0
}

// length returns the length of the text in b, which ends at the first zero byte or at the end of b.
func length(b []byte) int {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		return n
	}
	return len(b)
}
