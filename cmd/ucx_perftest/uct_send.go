//go:build linux

package main

import (
	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// amID is the id of the active messages of the tests (UCT_PERF_TEST_AM_ID in lib/libperf_int.h).
const amID uct.AMID = 5

// shortHeader is the length of the header of short active messages.
const shortHeader = 8

// prepare chooses the operation and sets the handler of received messages.
func (r *uctRunner) prepare() error {
	r.inflight = uct.Completion{Owner: r, Count: 1} // one extra, so that the count never reaches 0
	switch r.p.Test.Command {
	case perfoob.CmdPut:
		r.preparePut()
	case perfoob.CmdGet:
		r.prepareGet()
	case perfoob.CmdAM:
		r.prepareAM()
		return r.iface.SetAMHandler(amID, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			if len(data) > 0 {
				r.lastSN = data[0]
			}
			return nil
		})
	default:
		r.prepareAtomic()
	}
	return nil
}

func (r *uctRunner) prepareAM() {
	switch r.p.Layout {
	case perfoob.Short:
		r.post = r.amShort
	case perfoob.ShortIOV:
		r.iov = r.list(0)
		r.post = r.amShortIOV
	case perfoob.Bcopy:
		r.post = r.amBcopy
	case perfoob.Zcopy:
		r.iov = r.list(r.p.UCTHeader)
		r.post = r.amZcopy
		r.windowed = r.p.Test.Type == perfoob.StreamUni
	}
}

func (r *uctRunner) amShort(sn, _ uint8, c *uct.Completion) error {
	return r.ep.AMShort(amID, uint64(sn), r.sendBuf[shortHeader:r.length], 0, c)
}

func (r *uctRunner) amShortIOV(sn, _ uint8, c *uct.Completion) error {
	r.sendBuf[0] = sn
	return r.ep.AMShortIOV(amID, r.iov, 0, c)
}

func (r *uctRunner) amBcopy(sn, _ uint8, c *uct.Completion) error {
	r.sendBuf[0] = sn
	_, err := r.ep.AMBcopy(amID, r, 0, c)
	return err
}

func (r *uctRunner) amZcopy(sn, _ uint8, c *uct.Completion) error {
	r.sendBuf[0] = sn
	if r.p.UCTHeader == 0 {
		return r.ep.AMZcopy(amID, nil, r.iov, 0, c)
	}
	return r.ep.AMZcopy(amID, (*header)(r), r.iov, 0, c)
}

// Pack implements uct.Packer for the whole message.
func (r *uctRunner) Pack(dst []byte) int { return copy(dst, r.sendBuf[:r.length]) }

// header packs the header of a zero-copy message.
type header uctRunner

// Pack implements uct.Packer.
func (h *header) Pack(dst []byte) int { return copy(dst, h.sendBuf[:h.p.UCTHeader]) }

// Completed implements uct.CompletionOwner; it is not called.
func (r *uctRunner) Completed(*uct.Completion) {}

// progressEvery is the number of operations completed in their calls between rounds of progress
// (N_SEND_B_PER_PROGRESS in lib/uct_tests.cc).
const progressEvery = 16

// sendOne starts an operation with sequence number sn as soon as the transport and the window allow
// it. The parameter prev is the sequence number of the previous operation.
func (r *uctRunner) sendOne(sn, prev uint8) error {
	var c *uct.Completion
	if r.windowed {
		if err := r.await(r.window - 1); err != nil {
			return err
		}
		c = &r.inflight
	}
	for {
		if c != nil {
			c.Count++
		}
		err := r.post(sn, prev, c)
		if err == ucs.InProgress {
			r.idle = 0
			return r.advance()
		}
		if c != nil {
			c.Count--
		}
		switch err {
		case nil:
			r.idle = 0 // although no completion event follows
			if r.posts++; r.posts%progressEvery == 1 {
				return r.between()
			}
			return nil
		case ucs.ErrNoResource:
			if err := r.advance(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// checkEvery is the number of operations completed in their calls between checks that the other
// side is alive, a multiple of progressEvery.
const checkEvery = 1 << 16

// between makes progress between operations that complete in their calls. It does not wait, so it
// does not yield.
func (r *uctRunner) between() error {
	r.w.Progress()
	if r.posts%checkEvery == 1 {
		return r.g.alive()
	}
	return nil
}

// await progresses until at most n counted operations are outstanding.
func (r *uctRunner) await(n int) error {
	for r.inflight.Count-1 > n {
		if err := r.advance(); err != nil {
			return err
		}
	}
	return r.inflight.Err
}
