//go:build linux

package rdmacm_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// eventTimeout bounds the wait for an event that should happen.
const eventTimeout = 2 * time.Minute

// rig is the environment of tests: a simulated machine, or real devices.
type rig struct {
	channel  func() (*rdmacm.EventChannel, error)
	open     func(rdmacm.Addr) (*verbs.Context, error)
	client   netip.Addr // the address that clients bind to
	server   netip.Addr
	tos      uint8
	progress func()
}

func (r *rig) config() *rdmacm.Config {
	return &rdmacm.Config{NewChannel: r.channel, Source: netip.AddrPortFrom(r.client, 0), TypeOfService: r.tos}
}

// end is a queue pair with memory.
type end struct {
	r   *rig
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	buf []byte
	wcs []verbs.WC // completions not waited for yet
}

// newEnd creates a queue pair on the device of an address.
func (r *rig) newEnd(t *testing.T, a rdmacm.Addr, typ verbs.QPType) *end {
	t.Helper()
	ctx, err := r.open(a)
	check(t, err)
	e := &end{r: r, pd: must(ctx.AllocPD())(t), buf: make([]byte, 4096)}
	e.cq = must(ctx.CreateCQ(16, nil, 0))(t)
	e.mr = must(e.pd.RegMR(e.buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead))(t)
	e.qp = must(e.pd.CreateQP(&verbs.QPInitAttr{Type: typ, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	return e
}

// close closes all objects of e. No completion may be left that was not waited for.
func (e *end) close(t *testing.T) {
	t.Helper()
	if len(e.wcs) > 0 {
		t.Errorf("too many completions: %+v", e.wcs)
	}
	check(t, e.qp.Close())
	check(t, e.mr.Close())
	check(t, e.cq.Close())
	check(t, e.pd.Close())
}

// recv posts a receive.
func (e *end) recv(t *testing.T) {
	t.Helper()
	if _, err := e.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{e.mr.SGE(0, 2048)}}}); err != nil {
		t.Fatal(err)
	}
}

// send sends a text, with the other fields of w.
func (e *end) send(t *testing.T, text string, w verbs.SendWR) {
	t.Helper()
	copy(e.buf[2048:], text)
	w.ID, w.Opcode, w.Flags, w.SGList = 2, verbs.WRSend, verbs.SendSignaled, []verbs.SGE{e.mr.SGE(2048, len(text))}
	if _, err := e.qp.PostSend([]verbs.SendWR{w}); err != nil {
		t.Fatal(err)
	}
}

// poll waits for a completion and keeps it.
func (e *end) poll(t *testing.T) {
	t.Helper()
	var wc [1]verbs.WC
	for deadline := time.Now().Add(eventTimeout); e.cq.Poll(wc[:]) == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("no completion, but %+v", e.wcs)
		}
		if e.r.progress != nil {
			e.r.progress()
		}
	}
	e.wcs = append(e.wcs, wc[0])
}

// done waits for a completion with an operation, and keeps others for later: the answer to a
// message may arrive before its acknowledgement.
func (e *end) done(t *testing.T, op verbs.WCOpcode) verbs.WC {
	t.Helper()
	for i := 0; ; i++ {
		if i == len(e.wcs) {
			e.poll(t)
		}
		wc := e.wcs[i]
		if err := wc.Err(); err != nil {
			t.Fatalf("%+v: %v, want %v", wc, err, op)
		}
		if wc.Opcode == op {
			e.wcs = slices.Delete(e.wcs, i, i+1)
			return wc
		}
	}
}

// drain waits for the last n completions of a connection that has ended.
func (e *end) drain(t *testing.T, n int) {
	t.Helper()
	for len(e.wcs) < n {
		e.poll(t)
	}
	for _, wc := range e.wcs[:n] {
		if wc.Status != verbs.WCSuccess && wc.Status != verbs.WCWRFlushErr {
			t.Errorf("%+v: %v, want it done or flushed", wc, wc.Err())
		}
	}
	e.wcs = e.wcs[n:]
}

// talk sends a text from one connected end to the other, which has posted a receive.
func talk(t *testing.T, from, to *end, text string) {
	t.Helper()
	from.send(t, text, verbs.SendWR{})
	from.done(t, verbs.WCSend)
	wc := to.done(t, verbs.WCRecv)
	if got := string(to.buf[:wc.ByteLen]); got != text {
		t.Fatalf("received %q, want %q", got, text)
	}
}

// pair is a connection with both ends.
type pair struct {
	client, server *rdmacm.Conn
	a, b           *end
}

// connect makes a connection through a listener.
func (r *rig) connect(t *testing.T, l *rdmacm.Listener) *pair {
	t.Helper()
	ctx := timeout(t)
	p := &pair{}
	failed := make(chan error, 1)
	go func() {
		var err error
		if p.server, err = l.GetRequest(ctx); err == nil {
			p.b = r.newEnd(t, p.server.Addr(), verbs.RC)
			err = p.server.ID().InitQP(p.b.qp)
		}
		if err == nil {
			p.b.recv(t)
			err = p.server.Accept(ctx, p.b.qp, &rdmacm.ConnParam{ResponderResources: 3, InitiatorDepth: 2, RNRRetryCount: 6,
				PrivateData: []byte("answer")})
		}
		failed <- err
	}()
	p.client = must(rdmacm.Resolve(ctx, l.Addr(), r.config()))(t)
	p.a = r.newEnd(t, p.client.Addr(), verbs.RC)
	check(t, p.client.ID().InitQP(p.a.qp))
	p.a.recv(t)
	check(t, p.client.Connect(ctx, p.a.qp, &rdmacm.ConnParam{ResponderResources: 4, InitiatorDepth: 5, RetryCount: 6,
		RNRRetryCount: 6, PrivateData: []byte("question")}))
	check(t, <-failed)
	return p
}

// close closes both ends and their queue pairs.
func (p *pair) close(t *testing.T) {
	t.Helper()
	check(t, p.client.Close())
	check(t, p.server.Close())
	p.a.close(t)
	p.b.close(t)
}

// listen listens at the server's address.
func (r *rig) listen(t *testing.T) *rdmacm.Listener {
	t.Helper()
	l := must(rdmacm.Listen(netip.AddrPortFrom(r.server, 0), r.config()))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns a function that returns v or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// wantErr checks that an error is want.
func wantErr(t *testing.T, err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// next waits for an event, which must be of type want.
func next(t *testing.T, ch *rdmacm.EventChannel, want rdmacm.EventType) *rdmacm.Event {
	t.Helper()
	e, err := ch.GetEvent(timeout(t))
	check(t, err)
	if e.Type != want {
		t.Fatalf("%v (status %d: %v), want %v", e.Type, e.Status, e.Err(), want)
	}
	return e
}
