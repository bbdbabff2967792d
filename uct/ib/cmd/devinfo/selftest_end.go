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
	endBytes = 128 << 10  // bytes of memory that each end registers
	endQKey  = 0x11111111 // as in rdma-core's examples
)

// toAll allows all accesses of the other end to the memory of an end.
const toAll = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// check is the run of one check of a device, with the objects that it has created.
type check struct {
	*underTest
	ctx  context.Context
	made []io.Closer
}

// close closes the created objects in reverse order.
func (k *check) close() error {
	var errs []error
	for i := len(k.made) - 1; i >= 0; i-- {
		errs = append(errs, k.made[i].Close())
	}
	k.made = nil
	return errors.Join(errs...)
}

// keep makes check.close close a new object, unless err is set. It returns its arguments made and
// err.
func keep[T io.Closer](k *check, made T, err error) (T, error) {
	if err == nil {
		k.made = append(k.made, made)
	}
	return made, err
}

// end is one end of a connection: a queue pair and the objects that it needs.
type end struct {
	k   *check
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	buf []byte
}

// newEnd makes an end whose queue pair is not connected. The functions in change may modify the
// attributes of the queue pair before it is created.
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

// connect connects the queue pair of an end to that of another end at the same port, or prepares a
// UD queue pair. The functions in change may modify the attributes.
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

// path returns the address vector from the port to itself.
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

// at returns the gather list of n bytes at an offset of the memory of the end.
func (e *end) at(off, n int) []verbs.SGE { return []verbs.SGE{e.mr.SGE(off, n)} }

func (e *end) send(wr ...verbs.SendWR) error {
	_, err := e.qp.PostSend(wr)
	return err
}

func (e *end) recv(wr ...verbs.RecvWR) error {
	_, err := e.qp.PostRecv(wr)
	return err
}

// next waits for a completion with any status. It fails when the time of the check is over.
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

// done waits for a completion, which must be the success of the given request.
func (e *end) done(id uint64, op verbs.WCOpcode) (verbs.WC, error) {
	wc, err := e.next()
	switch {
	case err != nil:
		return wc, fmt.Errorf("%v: %w", op, err)
	case wc.Err() != nil:
		return wc, fmt.Errorf("%v completed with %w", op, wc.Err())
	case wc.ID != id || wc.Opcode != op || wc.QPN != e.qp.QPN():
		return wc, fmt.Errorf("got completion %v %d of queue pair %#x, expected %v %d of %#x", wc.Opcode, wc.ID, wc.QPN, op, id, e.qp.QPN())
	}
	return wc, nil
}

// failed waits for a completion with the given status.
func (e *end) failed(status verbs.WCStatus) error {
	wc, err := e.next()
	if err == nil && wc.Status != status {
		return fmt.Errorf("a request completed with %v, expected %v", wc.Status, status)
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

// fill fills b with a pattern that depends on seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(seed + i + i>>8)
	}
}

// same compares received data with the expected data.
func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%s, %d bytes: byte %d is %#x, expected %#x", what, len(got), i, got[i], want[i])
		}
	}
	return fmt.Errorf("%s: %d bytes, expected %d", what, len(got), len(want))
}
