//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
)

// streamRecv receives n bytes of the other side's stream.
func (r *ucpRunner) streamRecv(buf []byte, p *ucp.RequestParams, n int) error {
	if r.p.Flags&perfoob.FlagStreamRecvData != 0 {
		return r.streamTake(n)
	}
	for got := 0; got < n; {
		rest := buf
		if rest != nil { // otherwise the parameters have the buffer, and one receive fills it
			rest = buf[got:n]
		}
		k, req, err := r.ep.StreamRecv(rest, p)
		if req != nil {
			k, err = r.streamAwait(req)
		}
		if err != nil {
			return err
		}
		got += k
	}
	return nil
}

// streamAwait waits for the completion of a receive.
func (r *ucpRunner) streamAwait(req *ucp.Request) (int, error) {
	for !req.Done() {
		if err := r.advance(); err != nil {
			return 0, err
		}
	}
	n, err := req.RecvLength()
	req.Free()
	return n, err
}

// streamTake consumes n bytes in the library's buffers. A packet may also have bytes of the next
// message.
func (r *ucpRunner) streamTake(n int) error {
	for r.unread < n {
		d, err := r.ep.StreamRecvData()
		if err != nil {
			return err
		}
		if k := len(d.Bytes()); k > 0 {
			r.unread += k
			d.Release()
		} else if err := r.advance(); err != nil {
			return err
		}
	}
	r.unread -= n
	return nil
}
