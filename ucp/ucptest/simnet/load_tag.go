//go:build simulate

package simnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Tagged messages. The tag of a message has its class in the low bits, and its number above.

const classBits = 8

// Values of Step.Mask: the tags that a receive accepts.
const (
	maskAny     = iota
	maskClass   // those of a class
	maskParity  // those of the classes with the same lowest bit
	maskMessage // that of one message
)

// kind is a kind of step.
type kind struct {
	do       func(*goroutine, *Step)
	messages int  // numbers of messages for each operation
	peer     bool // the step addresses a worker
	writes   bool // the operations write to the program's memory
}

var kinds map[string]kind

func init() {
	kinds = map[string]kind{
		"nop":     {(*goroutine).doNothing, 0, false, false},
		"tag":     {(*goroutine).tagSend, 1, true, false},
		"recv":    {(*goroutine).tagRecv, 0, false, true},
		"probe":   {(*goroutine).probe, 0, false, true},
		"next":    {(*goroutine).next, 0, false, true},
		"am":      {(*goroutine).amSend, 2, true, false},
		"stream":  {(*goroutine).streamSend, 0, true, false},
		"srecv":   {(*goroutine).streamRecv, 0, true, true},
		"put":     {(*goroutine).put, 1, true, false},
		"get":     {(*goroutine).get, 0, true, true},
		"flush":   {(*goroutine).flush, 0, true, false},
		"wflush":  {(*goroutine).flushWorker, 0, false, false},
		"fence":   {(*goroutine).fence, 0, false, false},
		"add":     {(*goroutine).atomicAdd, 0, true, false},
		"fadd":    {(*goroutine).atomicFetchAdd, 0, true, true},
		"atomic":  {(*goroutine).atomicOwn, 0, true, true},
		"close":   {(*goroutine).closeLink, 0, true, false},
		"reject":  {(*goroutine).reject, 0, false, false},
		"shut":    {(*goroutine).shut, 0, false, false},
		"quit":    {(*goroutine).quit, 0, false, false},
		"connect": {(*goroutine).connect, 0, true, false},
	}
}

// messages returns how many numbers of messages each operation of the step has.
func (s *Step) messages() int {
	n := kinds[s.Kind].messages
	if s.Flags&flagChain != 0 {
		n++
	}
	return n
}

// doNothing waits.
func (g *goroutine) doNothing(s *Step) {
	if s.Wait > 0 {
		g.wait(g.wk.l.w.now+s.Wait, func() bool { return false })
	}
}

func tagOf(id, class int) ucp.Tag { return ucp.Tag(id)<<classBits | ucp.Tag(class) }

// tagSend sends tagged messages.
func (g *goroutine) tagSend(s *Step) {
	l := g.wk.l
	for k := range s.N {
		id := s.ID + k
		n := g.link(s.Peer)
		if n == nil {
			return
		}
		o := &op{g: g, s: s, buf: g.buffer(s.Size), done: sentResult, begin: l.j.tick()}
		fill(o.buf, id)
		o.m = l.j.sends(id, s, s.Peer, s.Size, tagOf(id, s.Class), o)
		if s.blocks() {
			g.tagSendWait(s, n, o)
			continue
		}
		p := g.options(s, o)
		if o.callback {
			p.OnSend = onSend
		}
		g.mapped(o, p)
		buf := g.content(s, o, p)
		l.j.inFlow(o.m, g, n.ep)
		send := n.ep.TagSend
		if s.Flags&flagSync != 0 {
			send = n.ep.TagSendSync
		}
		r, err := send(o.m.tag, buf, plain(s, p))
		g.submit(o, r, err)
	}
}

// tagSendWait sends a message by the form that waits.
func (g *goroutine) tagSendWait(s *Step, n *link, o *op) {
	l := g.wk.l
	ctx, cancel := g.deadline(s)
	defer cancel()
	l.j.inFlow(o.m, g, n.ep)
	send := n.ep.TagSendWait
	if s.Flags&flagSync != 0 {
		send = n.ep.TagSendSyncWait
	}
	g.sendEnded(o, send(ctx, o.m.tag, o.buf))
}

// sendEnded judges the end of a send that has waited, with a context.
func (g *goroutine) sendEnded(o *op, err error) {
	j := g.wk.l.j
	o.over, o.err, o.at, o.ended, o.posted = true, err, j.l.w.now, j.tick(), j.tick()
	if k := mismatch(o.buf, o.m.id); k >= 0 {
		j.fail("the buffer of %s was changed at byte %d", o.s, k)
	}
	if g.wk.l.out != nil {
		g.wk.l.tracef("worker %d.%d: end of %s %d: %v", g.wk.number, g.number, o.s.Kind, o.m.id, err)
	}
	switch {
	case err == nil:
		j.delivered(o)
	case errors.Is(err, ucs.ErrCanceled):
		if !errors.Is(err, context.DeadlineExceeded) {
			j.expect(o, err, "a send that waits")
		}
		j.notSent(o.m)
	case !errors.Is(err, context.DeadlineExceeded):
		j.expect(o, err, "a send that waits")
	case errors.Is(err, ucs.InProgress):
		g.wk.held = append(g.wk.held, o)
		return
	}
	fillCanary(o.buf)
	fillCanary(o.head)
}

// giveHeld takes back the buffers that sends have kept until their endpoint was closed.
func (wk *worker) giveHeld() {
	for _, o := range wk.held {
		if k := mismatch(o.buf, o.m.id); k >= 0 {
			wk.l.j.fail("the buffer of %s was changed at byte %d", o.s, k)
		}
		fillCanary(o.buf)
		fillCanary(o.head)
	}
	wk.held = nil
}

// accepts returns the tag and the mask of a receive.
func (s *Step) accepts() (tag, mask ucp.Tag) {
	switch s.Mask {
	case maskClass:
		return ucp.Tag(s.Class), 1<<classBits - 1
	case maskParity:
		return ucp.Tag(s.Class) & 1, 1
	case maskMessage:
		return tagOf(s.ID, s.Class), ucp.FullMask
	}
	return 0, 0
}

// tagRecv posts receives.
func (g *goroutine) tagRecv(s *Step) {
	l := g.wk.l
	for range s.N {
		o := &op{g: g, s: s, buf: g.buffer(s.Size), done: recvResult, begin: l.j.tick()}
		o.tag, o.mask = s.accepts()
		l.j.recvs = append(l.j.recvs, o)
		if s.blocks() {
			ctx, cancel := g.deadline(s)
			info, err := g.wk.w.TagRecvWait(ctx, o.tag, o.mask, o.buf)
			cancel()
			g.recvEnded(o, info, err)
			continue
		}
		p := g.options(s, o)
		if o.callback {
			p.OnTagRecv = onTagRecv
		}
		p.TagInfo = &o.info
		buf := g.content(s, o, p)
		r, err := g.wk.w.TagRecv(o.tag, o.mask, buf, p)
		g.submitRecv(o, r, err)
	}
}

// recvEnded judges the end of a receive that has waited, with a context.
func (g *goroutine) recvEnded(o *op, info ucp.TagRecvInfo, err error) {
	j := g.wk.l.j
	o.posted, o.stopped = j.tick(), j.tick()
	o.info, o.over, o.err = info, true, err
	if g.wk.l.out != nil {
		g.wk.l.tracef("worker %d.%d: end of %s: %#x %v", g.wk.number, g.number, o.s, info.SenderTag, err)
	}
	if errors.Is(err, ucs.ErrCanceled) {
		o.canceled = true
		if !errors.Is(err, context.DeadlineExceeded) {
			j.expect(o, err, "a receive that waits")
		}
		fillCanary(o.buf)
		return
	}
	recvResult(o, err)
	o.ended = j.tick()
	fillCanary(o.buf)
}

// submitRecv is submit for receives, whose end the world does not wait for.
func (g *goroutine) submitRecv(o *op, r *ucp.Request, err error) {
	o.mayCancel = true
	if g.submit(o, r, err); o.r != nil && !o.over {
		o.uncounted = true
		g.wk.l.j.add(-1)
	}
}

func onTagRecv(r *ucp.Request, err error, info ucp.TagRecvInfo, u any) {
	o := u.(*op)
	if o.info = info; err == nil {
		if again, err2 := r.TagRecvInfo(); err2 != nil || again != info {
			o.g.wk.l.j.fail("in the callback of %s TagRecvInfo is %v, %v, not %v", o.s, again, err2, info)
		}
	}
	o.called(r, err)
}

// recvResult judges the end of a tag receive.
func recvResult(o *op, err error) {
	j := o.g.wk.l.j
	switch {
	case errors.Is(err, ucs.ErrMessageTruncated):
		j.truncated(o)
	case errors.Is(err, ucs.ErrCanceled) && (o.stopped != 0 || o.waited):
		o.canceled = o.s.Flags&flagCancel != 0 || o.waited
		o.idle = !o.canceled
	case errors.Is(err, ucs.ErrNoResource) && o.s.Flags&flagForce != 0:
		o.canceled = true
	case err != nil:
		o.lost = true
		j.expect(o, err, "a receive")
	default:
		if o.r != nil && !o.callback {
			info, err := o.r.TagRecvInfo()
			if err != nil {
				j.fail("TagRecvInfo of %s, which has succeeded: %v", o.s, err)
			}
			o.info = info
		}
		j.matched(o, o.info)
	}
}

// probe looks for a message, takes it out and receives it.
func (g *goroutine) probe(s *Step) {
	w, l := g.wk.w, g.wk.l
	tag, mask := s.accepts()
	var info ucp.TagRecvInfo
	found := false
	look := func() bool {
		info, found = w.TagPeek(tag, mask)
		return found
	}
	for until := l.w.now + s.Wait; !look() && l.w.now < until && l.j.err == nil; {
		stirs := g.wk.proc.stirs
		g.wait(until, func() bool { return stirs != g.wk.proc.stirs })
	}
	if !found {
		return
	}
	begin := l.j.tick()
	m, ok := g.detach(tag, mask)
	if !ok {
		if !g.wk.proc.plan.Multi {
			l.j.fail("TagPeek has found message %#x, and TagTake has not", info.SenderTag)
		}
		return
	}
	if m.Info() != info && !g.wk.proc.plan.Multi {
		l.j.fail("TagPeek has found message %v, and TagTake %v", info, m.Info())
	}
	g.receive(m, s, tag, mask, begin)
}

// detach takes a message out, for receive. A sender that waits for the match may be told at once.
func (g *goroutine) detach(tag, mask ucp.Tag) (m *ucp.TagMessage, ok bool) {
	g.wk.taking++
	if m, ok = g.wk.w.TagTake(tag, mask); !ok {
		g.wk.taking--
	}
	return m, ok
}

// receive receives a message that was taken out.
func (g *goroutine) receive(m *ucp.TagMessage, s *Step, tag, mask ucp.Tag, begin uint64) {
	l := g.wk.l
	info := m.Info()
	id := uint64(info.SenderTag >> classBits)
	if id >= uint64(len(l.j.msgs)) || info.Length != l.j.msgs[id].size {
		l.j.fail("TagTake gives a message with tag %#x and %d bytes", info.SenderTag, info.Length)
		return
	}
	o := &op{g: g, s: s, buf: g.buffer(info.Length), done: recvResult, begin: begin, tag: tag, mask: mask, taken: &l.j.msgs[id]}
	l.j.recvs = append(l.j.recvs, o)
	g.wk.taking--
	if s.blocks() {
		ctx, cancel := g.deadline(s)
		defer cancel()
		info, err := m.RecvWait(ctx, o.buf)
		g.recvEnded(o, info, err)
		return
	}
	p := g.options(s, o)
	if o.callback {
		p.OnTagRecv = onTagRecv
	}
	p.TagInfo = &o.info
	buf := g.content(s, o, p)
	r, err := m.Recv(buf, p)
	if err != nil && errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 { // the message is still here
		o.over, o.canceled, o.posted = true, true, l.j.tick()
		fillCanary(o.buf)
		again := *s
		again.Flags &^= flagForce
		g.wk.taking++
		g.receive(m, &again, tag, mask, begin)
		return
	}
	g.submitRecv(o, r, err)
}

// Datatypes.

// cut cuts b into pieces.
func cut(b []byte, seed int) [][]byte {
	r := rand.New(rand.NewPCG(uint64(seed), uint64(len(b))))
	var list [][]byte
	for range 1 + r.IntN(4) {
		k := r.IntN(len(b) + 1)
		list = append(list, b[:k:k])
		b = b[k:]
	}
	return append(list, b)
}

// blob is an object of the application's datatype.
type blob struct {
	b  []byte
	wk *worker
}

var blobs = ucp.NewGeneric(blobOps{})

type blobOps struct{}

func (blobOps) StartPack(object any, count int) (ucp.PackState, error) {
	o := object.(*blob)
	o.wk.packs++
	return &blobState{blob: o, left: &o.wk.packs}, nil
}

func (blobOps) StartUnpack(object any, count int) (ucp.UnpackState, error) {
	o := object.(*blob)
	o.wk.unpacks++
	return &unblobState{blobState{blob: o, left: &o.wk.unpacks}}, nil
}

type blobState struct {
	*blob
	left  *int
	ended bool
	packs int
}

func (s *blobState) PackedSize() int { return len(s.b) }

// Pack packs less than there is room for, now and then.
func (s *blobState) Pack(offset int, dst []byte) int {
	if s.ended {
		s.wk.l.j.fail("Pack after Finish")
	}
	if s.packs++; s.packs%3 == 0 && len(dst) > 16 {
		dst = dst[:len(dst)/2+1]
	}
	return copy(dst, s.b[offset:])
}

func (s *blobState) Finish() {
	if s.ended {
		s.wk.l.j.fail("Finish of a datatype runs twice")
	}
	s.ended = true
	*s.left--
}

type unblobState struct{ blobState }

func (s *unblobState) Unpack(offset int, src []byte) error {
	if s.ended {
		s.wk.l.j.fail("Unpack after Finish")
	}
	if offset+len(src) > len(s.b) {
		return fmt.Errorf("unpacking of %d bytes at %d of %d: %w", len(src), offset, len(s.b), ucs.ErrInvalidParam)
	}
	copy(s.b[offset:], src)
	return nil
}
