//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Checks of device events and of error handling.

func checkEvents(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	for i, solicited := range []bool{false, true} {
		if err := b.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2}); err != nil {
			return err
		}
		if err := b.cq.ReqNotify(solicited); err != nil {
			return err
		}
		if solicited {
			// This completion must not cause an event.
			if err := a.transfer(verbs.WCSend, verbs.SendWR{Opcode: verbs.WRSend}); err != nil {
				return err
			}
			if _, err := b.done(1, verbs.WCRecv); err != nil {
				return err
			}
			if _, ok, err := b.cq.Channel().TryEvent(); ok || err != nil {
				return fmt.Errorf("unexpected event for an unsolicited message, or %w", err)
			}
		}
		if err := a.transfer(verbs.WCSend, verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSolicited}); err != nil {
			return err
		}
		q, err := b.cq.Channel().GetEvent(k.ctx)
		if err != nil {
			return fmt.Errorf("no event: %w", err)
		}
		if q != b.cq {
			return errors.New("got an event of another completion queue")
		}
		if _, err := b.done(uint64(i+1), verbs.WCRecv); err != nil {
			return err
		}
		if !solicited {
			// Consume the second receive, so that both rounds begin in the same state.
			if err := a.transfer(verbs.WCSend, verbs.SendWR{Opcode: verbs.WRSend}); err != nil {
				return err
			}
			if _, err := b.done(2, verbs.WCRecv); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkResize(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	const n = 20
	for i := range n {
		if err := b.recv(verbs.RecvWR{ID: uint64(i)}); err != nil {
			return err
		}
		if err := a.transfer(verbs.WCSend, verbs.SendWR{Opcode: verbs.WRSend}); err != nil {
			return err
		}
		switch i {
		case n / 2:
			err = b.cq.Resize(300)
		case n - 1:
			err = b.cq.Resize(40)
		}
		if err != nil {
			return err
		}
	}
	for i := range n {
		if _, err := b.done(uint64(i), verbs.WCRecv); err != nil {
			return err
		}
	}
	return nil
}

func checkRereg(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	other := make([]byte, 8192)
	err = b.mr.Rereg(verbs.ReregTranslation, nil, other, 0)
	if errors.Is(err, ucs.ErrUnsupported) {
		return errLacking // soft-RoCE before Linux 6.3
	}
	if err != nil {
		return err
	}
	fill(a.buf[:8192], 11)
	if err := a.transfer(verbs.WCRDMAWrite, a.to(verbs.WRRDMAWrite, b, 0, a.at(0, 8192))); err != nil {
		return err
	}
	return same("written", other, a.buf[:8192])
}

// fails posts a receive and the request wr, which cannot succeed, twice. It checks that the first
// request completes with the given status, that the second request and the receive are flushed, and
// that the queue pair is in the error state.
func (e *end) fails(wr verbs.SendWR, status verbs.WCStatus) error {
	if err := e.recv(verbs.RecvWR{}); err != nil {
		return err
	}
	wr.Flags |= verbs.SendSignaled
	if err := e.send(wr, wr); err != nil {
		return err
	}
	for _, want := range []verbs.WCStatus{status, verbs.WCWRFlushErr, verbs.WCWRFlushErr} {
		if err := e.failed(want); err != nil {
			return err
		}
	}
	a, err := e.qp.Query(verbs.QPAttrState)
	if err == nil && a.State != verbs.QPErr {
		err = fmt.Errorf("the queue pair is in state %v, expected %v", a.State, verbs.QPErr)
	}
	return err
}

func checkBadKey(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	w := a.to(verbs.WRRDMAWrite, b, 0, a.at(0, 8))
	w.RKey ^= 0x5500
	return a.fails(w, verbs.WCRemAccessErr)
}

func checkRNR(k *check) error {
	a, _, err := k.pair(verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry = 1 })
	if err != nil {
		return err
	}
	return a.fails(verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)}, verbs.WCRNRRetryExcErr)
}

// checkReset resets failed connections and reconnects them.
func checkReset(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	w := a.to(verbs.WRRDMAWrite, b, endBytes, a.at(0, 8))
	if err := a.fails(w, verbs.WCRemAccessErr); err != nil {
		return err
	}
	for _, e := range []*end{a, b} {
		if err := e.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState); err != nil {
			return err
		}
	}
	if err := a.connect(b); err != nil {
		return err
	}
	if err := b.connect(a); err != nil {
		return err
	}
	fill(a.buf[:100], 13)
	if err := a.transfer(verbs.WCRDMAWrite, a.to(verbs.WRRDMAWrite, b, 0, a.at(0, 100))); err != nil {
		return err
	}
	return same("written", b.buf[:100], a.buf[:100])
}

// checkClosing leaves outstanding requests behind, which closing the objects must discard.
func checkClosing(k *check) error {
	a, b, err := k.pair(verbs.RC)
	if err != nil {
		return err
	}
	for i := range 30 {
		if err := b.recv(verbs.RecvWR{ID: uint64(i), SGList: b.at(0, 1000)}); err != nil {
			return err
		}
		if err := a.send(verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 1000)}); err != nil {
			return err
		}
	}
	return nil
}
