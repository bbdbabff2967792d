//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// ucpAMID is the id of every active message of the tests over UCP.
const ucpAMID = 1

// openAM checks the header length of a test with active messages and sets their handler. It does
// nothing in other tests.
func (r *ucpRunner) openAM(mem []byte) error {
	if r.cmd != perfoob.CmdAM {
		return nil
	}
	if n, most := r.p.UCPHeader, r.w.Attr().MaxAMHeader; n > most {
		return fmt.Errorf("header of %d bytes, the transports take at most %d: %w", n, most, ucs.ErrInvalidParam)
	}
	r.am.header = make([]byte, r.p.UCPHeader)
	if r.p.Flags&perfoob.FlagAMReceiverCopies != 0 {
		r.am.copies = mem
	}
	r.recv.OnAMRecv = r.amRecvDone
	r.recvParams = &r.recv
	return r.w.SetAMHandler(ucp.AMHandlerParams{ID: ucpAMID, Handler: r.amHandler})
}

// amHandler handles an arriving message.
func (r *ucpRunner) amHandler(m *ucp.AMMessage) error {
	if m.Offered() {
		return r.amFetch(m)
	}
	if r.am.copies != nil {
		copy(r.am.copies, m.Data())
	}
	r.am.came++
	return nil
}

// amFetch receives the data of a rendezvous message.
func (r *ucpRunner) amFetch(m *ucp.AMMessage) error {
	req, err := m.Recv(r.recvBuf, r.recvParams)
	if req == nil {
		r.amRecvDone(nil, err, 0, nil)
	}
	return err
}

// amRecvDone handles the completion of a receive that amFetch has started.
func (r *ucpRunner) amRecvDone(req *ucp.Request, err error, _ int, _ any) {
	if err != nil {
		r.am.err = err
	} else {
		r.am.came++
	}
	req.Free()
}

// amRecv waits for a message.
func (r *ucpRunner) amRecv() error {
	for r.am.came == r.am.taken {
		if err := r.advance(); err != nil {
			return err
		}
	}
	r.am.taken++
	return nil
}

// amRecvAll waits for the messages of a stage. As in C, it does not receive them one by one.
func (r *ucpRunner) amRecvAll() error {
	for !r.c.done() {
		if n := r.am.came - r.am.taken; n > 0 {
			r.am.taken += n
			r.c.count(n)
		} else if err := r.advance(); err != nil {
			return err
		}
	}
	return nil
}
