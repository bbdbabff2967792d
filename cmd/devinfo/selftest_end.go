//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

const (
	endBytes = 128 << 10  // of memory at each end
	endQKey  = 0x11111111 // as in rdma-core's examples
)

// toAll is what the other end may do with an end's memory.
const toAll = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// check is one check of a device, and what it has made there.
type check struct {
	*underTest
	ctx  context.Context
	made []io.Closer
}

// close closes what was made, the last first.
func (k *check) close() error {
	var errs []error
	for i := len(k.made) - 1; i >= 0; i-- {
		errs = append(errs, k.made[i].Close())
	}
	k.made = nil
	return errors.Join(errs...)
}

// keep has a new object closed at the check's end.
func keep[T io.Closer](k *check, made T, err error) (T, error) {
	if err == nil {
		k.made = append(k.made, made)
	}
	return made, err
}

// end is one end of a connection: a queue pair with one of each that it needs.
type end struct {
	k   *check
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	buf []byte
}

// newEnd makes an end whose queue pair is not connected; change may have it be another.
func (k *check) newEnd(typ verbs.QPType, change ...func(*end, *verbs.QPInitAttr) error) (*end, error) {
	e := &end{k: k, buf: make([]byte, endBytes)}
	pd, err := k.c.AllocPD()
	if e.pd, err = keep(k, pd, err); err != nil {
		return nil, err
	}
	ch, err := k.c.CreateCompChannel()
	if ch, err = keep(k, ch, err); err != nil {
		return nil, err
	}
	cq, err := k.c.CreateCQ(128, ch, 0)
	if e.cq, err = keep(k, cq, err); err != nil {
		return nil, err
	}
	mr, err := e.pd.RegMR(e.buf, toAll)
	if e.mr, err = keep(k, mr, err); err != nil {
		return nil, err
	}
	return e, e.newQP(typ, change...)
}

func (e *end) newQP(typ verbs.QPType, change ...func(*end, *verbs.QPInitAttr) error) error {
	a := &verbs.QPInitAttr{Type: typ, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 3, MaxRecvSGE: 3, MaxInline: 64}}
	for _, f := range change {
		if err := f(e, a); err != nil {
			return err
		}
	}
	qp, err := e.pd.CreateQP(a)
	e.qp, err = keep(e.k, qp, err)
	return err
}

// connect connects an end to another of the port, or readies one of datagrams; change may
// have it done otherwise.
func (e *end) connect(to *end, change ...func(*verbs.QPAttr)) error {
	err := e.qp.Init(&verbs.QPAttr{Port: e.k.port, QKey: endQKey, Access: toAll})
	if err != nil {
		return err
	}
	a := &verbs.QPAttr{PathMTU: e.k.mtu, AH: e.k.path(), DestQPN: to.qp.QPN(), RQPSN: 0x111, SQPSN: 0x111,
		MaxRdAtomic: 1, MaxDestRdAtomic: 1, MinRNRTimer: 1, Timeout: 14, RetryCount: 7, RNRRetry: 6}
	for _, f := range change {
		f(a)
	}
	return e.qp.Connect(a)
}

// path is the way from the port to itself.
func (d *underTest) path() verbs.AHAttr {
	a := d.gid.To(d.gid.GID)
	a.DLID = d.lid
	return a
}

// pair makes two ends that are connected to each other.
func (k *check) pair(typ verbs.QPType, change ...func(*verbs.QPAttr)) (a, b *end, err error) {
	if a, err = k.newEnd(typ); err != nil {
		return nil, nil, err
	}
	if b, err = k.newEnd(typ); err != nil {
		return nil, nil, err
	}
	if err = a.connect(b, change...); err == nil {
		err = b.connect(a, change...)
	}
	return a, b, err
}

// at is a piece of the end's memory.
func (e *end) at(off, n int) []verbs.SGE { return []verbs.SGE{e.mr.SGE(off, n)} }

func (e *end) send(wr ...verbs.SendWR) error {
	_, err := e.qp.PostSend(wr)
	return err
}

func (e *end) recv(wr ...verbs.RecvWR) error {
	_, err := e.qp.PostRecv(wr)
	return err
}

// next waits for a completion, of whatever status.
func (e *end) next() (verbs.WC, error) {
	var wc [1]verbs.WC
	for e.cq.Poll(wc[:]) == 0 {
		if err := e.k.ctx.Err(); err != nil {
			return wc[0], fmt.Errorf("no completion: %w", err)
		}
		runtime.Gosched()
	}
	return wc[0], nil
}

// done waits for a completion, which must be the success of a request.
func (e *end) done(id uint64, op verbs.WCOpcode) (verbs.WC, error) {
	wc, err := e.next()
	switch {
	case err != nil:
		return wc, fmt.Errorf("%v: %w", op, err)
	case wc.Err() != nil:
		return wc, fmt.Errorf("%v has ended with %w", op, wc.Err())
	case wc.ID != id || wc.Opcode != op || wc.QPN != e.qp.QPN():
		return wc, fmt.Errorf("the end of %v %d of queue pair %#x, in place of %v %d of %#x", wc.Opcode, wc.ID, wc.QPN, op, id, e.qp.QPN())
	}
	return wc, nil
}

// failed waits for a completion of a certain failure.
func (e *end) failed(status verbs.WCStatus) error {
	wc, err := e.next()
	if err == nil && wc.Status != status {
		return fmt.Errorf("a request has ended with %v, in place of %v", wc.Status, status)
	}
	return err
}

// transfer posts one request and waits for its success.
func (e *end) transfer(op verbs.WCOpcode, wr verbs.SendWR) error {
	wr.Flags |= verbs.SendSignaled
	if err := e.send(wr); err != nil {
		return err
	}
	_, err := e.done(wr.ID, op)
	return err
}

// fill writes a pattern.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(seed + i + i>>8)
	}
}

// same compares what was moved.
func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%s: of %d bytes, the one at %d is %#x, not %#x", what, len(got), i, got[i], want[i])
		}
	}
	return fmt.Errorf("%s: %d bytes, not %d", what, len(got), len(want))
}
