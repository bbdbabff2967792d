//go:build simulate

package simnet

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Active messages. The header of a message begins with its number. The classes are:
const (
	amHandler    = iota // ids with a handler
	amPersistent        // handler with AMPersistentData
	amQueue             // queue of whole messages
	amOffers            // queue of messages and offers
	amReplies           // replies, which only handlers send
	amClasses
)

// Values of Step.How: what the receiver does with a message.
const (
	howLook    = iota // looks at data that has arrived, receives data that is offered
	howRecv           // receives the data
	howKeep           // keeps the message, and receives the data later
	howRelease        // keeps the message, and releases it later
	howRefuse         // returns an error
	howIgnore         // returns nil
	hows
)

// amState is what a worker has for active messages.
type amState struct {
	wk     *worker
	queues [2]*ucp.AMQueue
	kept   []keptMessage
}

type keptMessage struct {
	am *ucp.AMMessage
	m  *message
}

// open sets the handlers of a worker.
func (a *amState) open(wk *worker) {
	a.wk = wk
	for _, id := range []uint16{amHandler, amPersistent, amReplies} {
		var flags ucp.AMHandlerFlags
		if id == amPersistent {
			flags = ucp.AMPersistentData
		}
		wk.l.must(wk.w.SetAMHandler(ucp.AMHandlerParams{ID: id, Handler: a.handle, Flags: flags}), "SetAMHandler")
	}
	for k := range a.queues {
		q, err := wk.w.NewAMQueue(ucp.AMQueueParams{ID: uint16(amQueue + k), Offers: k == 1})
		wk.l.must(err, "NewAMQueue")
		a.queues[k] = q
	}
}

// amSend sends active messages.
func (g *goroutine) amSend(s *Step) {
	l := g.wk.l
	for k := range s.N {
		id := s.ID + k
		n := g.link(s.Peer)
		if n == nil {
			return
		}
		o := &op{g: g, s: s, buf: g.buffer(s.Size), head: g.buffer(max(8, s.Head)), done: amResult, begin: l.j.tick()}
		fill(o.buf, id)
		fill(o.head, id)
		o.m = l.j.sends(id, s, s.Peer, s.Size, 0, o)
		l.j.inOrder(o.m, g, n.ep)
		if s.How == howRefuse {
			o.m.mayErr = errRefused
		}
		var flags ucp.AMSendFlags
		for _, f := range [...]struct {
			flag Flags
			am   ucp.AMSendFlags
		}{{flagEager, ucp.AMSendEager}, {flagRndv, ucp.AMSendRndv}, {flagReply, ucp.AMSendReply}, {flagCopy, ucp.AMSendCopyHeader}} {
			if s.Flags&f.flag != 0 {
				flags |= f.am
			}
		}
		if s.Flags&flagReply != 0 {
			l.j.add(1) // the reply, until it is sent
		}
		if s.blocks() {
			ctx, cancel := g.deadline(s)
			err := n.ep.AMSendWait(ctx, uint16(s.Class), o.head, o.buf, flags)
			cancel()
			g.sendEnded(o, err)
			g.amUnsent(o)
			continue
		}
		p := g.options(s, o)
		p.AMFlags = flags
		if o.callback {
			p.OnSend = onSend
		}
		g.mapped(o, p)
		buf := g.content(s, o, p)
		head := o.head
		if s.Flags&flagCopy != 0 {
			head = append([]byte(nil), head...)
		}
		r, err := n.ep.AMSend(uint16(s.Class), head, buf, plain(s, p))
		if s.Flags&flagCopy != 0 {
			fillCanary(head)
		}
		g.submit(o, r, err)
		g.amUnsent(o)
	}
}

// errRefused is what handlers refuse messages with.
var errRefused = ucs.ErrNoMemory

func amResult(o *op, err error) {
	sentResult(o, err)
	if k := mismatch(o.head, o.m.id); k >= 0 {
		o.g.wk.l.j.fail("the header of %s was changed at byte %d", o.s, k)
	}
}

// amUnsent settles the reply of a message that is not sent.
func (g *goroutine) amUnsent(o *op) {
	if o.m.unsent && o.s.Flags&flagReply != 0 {
		g.wk.l.j.add(-1)
	}
}

// arrived checks a message that has come. ok is false if it is none of the program's.
func (a *amState) arrived(am *ucp.AMMessage) (m *message, ok bool) {
	j := a.wk.l.j
	head := am.Header()
	if len(head) < 8 {
		j.fail("an active message has a header of %d bytes", len(head))
		return nil, false
	}
	id := binary.LittleEndian.Uint64(head)
	if m, ok = j.gets(id, a.wk, "active"); !ok {
		return nil, false
	}
	class := uint16(m.s.Class)
	want := max(8, m.s.Head)
	if m.isReply {
		class = amReplies
	}
	if am.ID() != class || len(head) != want || mismatch(head, m.id) >= 0 || am.Len() != m.size {
		j.fail("active message %d (%s) has id %d, a header of %d bytes and %d bytes", m.id, m.s, am.ID(), len(head), am.Len())
		return nil, false
	}
	if (am.Reply() != nil) != (m.s.Flags&flagReply != 0 && !m.isReply) {
		j.fail("active message %d (%s): Reply is %v", m.id, m.s, am.Reply())
		return nil, false
	}
	if am.Offered() != (am.Data() == nil) && m.size > 0 {
		j.fail("active message %d (%s): Offered is %v", m.id, m.s, am.Offered())
	}
	if a.wk.l.out != nil {
		a.wk.l.tracef("worker %d: active message %d has come, offered %v", a.wk.number, m.id, am.Offered())
	}
	return m, true
}

// handle is the handler of active messages.
func (a *amState) handle(am *ucp.AMMessage) error {
	j := a.wk.l.j
	m, ok := a.arrived(am)
	if !ok {
		return nil
	}
	if !am.Offered() {
		j.data(m, am.Data(), "the data")
	}
	a.reply(am, m)
	if m.s.Flags&flagChain != 0 && m.s.Flags&flagCallback == 0 && !m.isReply {
		a.wk.all[0].chain(m, m.sender.g.wk.number)
	}
	switch how := m.s.How; {
	case how == howRefuse && am.Offered():
		m.refused = true
		j.settle(m)
		return errRefused
	case how == howIgnore && am.Offered():
		j.settle(m)
		return nil
	case how == howKeep || how == howRelease:
		am.Keep()
		a.kept = append(a.kept, keptMessage{am, m})
	case am.Offered() || how == howRecv:
		a.recv(am, m)
	default:
		j.settle(m)
	}
	return nil
}

// reply sends the reply to a message that wants one.
func (a *amState) reply(am *ucp.AMMessage, m *message) {
	if m.s.Flags&flagReply == 0 || m.isReply {
		return
	}
	j := a.wk.l.j
	g := a.wk.all[0]
	s := m.s
	o := &op{g: g, s: s, buf: g.buffer(s.Size / 2), head: g.buffer(max(8, s.Head)), done: amResult, begin: j.tick()}
	id := m.id + s.N
	fill(o.buf, id)
	fill(o.head, id)
	o.m = j.sends(id, s, m.sender.g.wk.number, len(o.buf), 0, o)
	o.m.isReply = true
	if s.How == howRefuse {
		o.m.mayErr = errRefused
	}
	o.callback = true
	step := g.step
	flags := *s
	flags.Flags = 0
	o.s = &flags
	r, err := am.Reply().AMSend(amReplies, o.head, o.buf, &ucp.RequestParams{OnSend: onSend, UserData: o})
	g.submit(o, r, err)
	g.step = step
	j.add(-1)
}

// recv receives the data of a message.
func (a *amState) recv(am *ucp.AMMessage, m *message) {
	j := a.wk.l.j
	g := a.wk.all[0]
	o := &op{g: g, s: &drainStep, buf: g.buffer(m.size), begin: j.tick()}
	o.callback = m.id%2 == 0
	o.done = func(o *op, err error) {
		if err != nil {
			j.expect(o, err, "a receive of active message data")
		} else {
			if !o.callback && o.r != nil {
				n, err := o.r.RecvLength()
				o.n = n
				if err != nil {
					j.fail("RecvLength of a receive that has succeeded: %v", err)
				}
			}
			if o.n != m.size {
				j.fail("the receive of message %d (%s) has %d bytes", m.id, m.s, o.n)
			}
			j.data(m, o.buf, "the data")
		}
		j.settle(m)
	}
	p := &ucp.RequestParams{UserData: o, RecvLength: &o.n}
	if o.callback {
		p.OnAMRecv = func(r *ucp.Request, err error, n int, u any) {
			o.n = n
			o.called(r, err)
		}
	}
	step := g.step
	r, err := am.Recv(o.buf, p)
	g.submit(o, r, err)
	g.step = step
}

// reap receives or releases messages that were kept.
func (a *amState) reap(wk *worker) {
	for len(a.kept) > 0 {
		k := a.kept[0]
		a.kept = a.kept[1:]
		a.finish(k)
	}
}

func (a *amState) finish(k keptMessage) {
	j := a.wk.l.j
	if k.m.s.How == howKeep {
		a.recv(k.am, k.m)
		return
	}
	if !k.am.Offered() {
		j.data(k.m, k.am.Data(), "the kept data")
	}
	if mismatch(k.am.Header(), k.m.id) >= 0 {
		j.fail("the header of kept message %d was changed", k.m.id)
	}
	k.am.Release()
	j.settle(k.m)
}

// take takes messages out of the queues.
func (a *amState) take(g *goroutine) (n int) {
	for k, q := range a.queues {
		for {
			am, ok := q.TryNext()
			if !ok {
				break
			}
			n++
			a.taken(am, k)
		}
	}
	return n
}

func (a *amState) taken(am *ucp.AMMessage, k int) {
	m, ok := a.arrived(am)
	if !ok {
		return
	}
	if !am.Offered() {
		a.wk.l.j.data(m, am.Data(), "the data")
	} else if k == 0 {
		a.wk.l.j.fail("message %d (%s) came out of a queue with its data at the sender", m.id, m.s)
	}
	a.reply(am, m)
	if m.s.How == howRelease || m.s.How == howRefuse || m.s.How == howIgnore {
		a.finish(keptMessage{am, m})
	} else {
		a.recv(am, m)
	}
}

// next takes messages out of a queue, and waits for them.
func (g *goroutine) next(s *Step) {
	a := &g.wk.am
	ctx, cancel := platform.WithTimeout(context.Background(), max(s.Wait, 1))
	defer cancel()
	for range s.N {
		k := s.Class % 2
		from := g.wk.l.w.now
		am, err := a.queues[k].Next(ctx)
		if err != nil {
			g.wk.l.j.waitedInVain(g.wk, amQueue+k, from)
			if !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
				g.wk.l.j.fail("AMQueue.Next: %v", err)
			}
			return
		}
		a.taken(am, k)
	}
}

// release gives up the queues.
func (a *amState) release(wk *worker) {
	a.reap(wk)
	for _, q := range slices.Backward(a.queues[:]) {
		wk.l.must(q.Close(), "AMQueue.Close")
	}
}
