//go:build simulate

package simnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// judge decides whether the library does what it promises, while a program runs and at its end. It
// keeps the first failure.
type judge struct {
	l     *load
	err   error
	clock uint64 // orders the calls of the program
	open  int    // goroutines, operations, messages and stream bytes that have not ended
	over  bool   // open was 0 once
	msgs  []message
	recvs []*op               // tag receives that were started
	flows map[flow][]*message // tagged messages
	ams   map[flow][]*message // active messages
	arena arena

	received int // messages
	ops      int // operations started
	faults   int // faults that have happened
}

// flow is what has an order: the messages of one goroutine over one endpoint.
type flow struct {
	goroutine *goroutine
	ep        *ucp.Endpoint
	class     int // of active messages
}

// message is a message of a program.
type message struct {
	id       int
	s        *Step
	to       int
	size     int
	tag      ucp.Tag
	sent     bool // its send has begun
	settled  bool // it was received, or will not be
	unsent   bool // the call has said that it is not sent
	got      int  // number of times that it was received
	recv     *op  // tag receive that has matched it
	sender   *op
	isReply  bool
	refused  bool  // the receiver's handler has refused data that is still at the sender
	mayErr   error // error with which its send may end
	received uint64
}

// onFailure is called at the first failure of a run.
var onFailure = func() {}

// fail records a failure, and ends the run.
func (j *judge) fail(format string, args ...any) {
	if j.err == nil {
		j.err = fmt.Errorf(format, args...)
		j.l.tracef("FAILURE: %v", j.err)
		onFailure()
		j.l.w.stirAll()
	}
}

// tick returns the next number of the order of calls.
func (j *judge) tick() uint64 { j.clock++; return j.clock }

// add adds to the number of things that have not ended.
func (j *judge) add(n int) {
	j.open += n
	if j.open <= 0 {
		j.over = true
		if j.open < 0 {
			j.fail("judge: %d things have ended twice", -j.open)
		}
		j.l.w.stirAll()
	}
}

// quiet reports whether nothing is left to wait for.
func (j *judge) quiet() bool { return j.over || j.err != nil }

// sends records that a message is about to be sent.
func (j *judge) sends(id int, s *Step, to, size int, tag ucp.Tag, o *op) *message {
	m := &j.msgs[id]
	if m.sent {
		j.fail("judge: message %d is sent twice", id)
	}
	*m = message{id: id, s: s, to: to, size: size, tag: tag, sent: true, sender: o}
	j.add(1)
	if j.l.workers[to].dead {
		j.settle(m)
	}
	return m
}

// inFlow puts a message into the order of its goroutine and endpoint.
func (j *judge) inFlow(m *message, g *goroutine, ep *ucp.Endpoint) {
	f := flow{g, ep, 0}
	j.flows[f] = append(j.flows[f], m)
}

// onePacket is a number of bytes that every transport sends in one packet.
const onePacket = 200

// inOrder is inFlow for active messages. Those whose first packet is the only one arrive in order, and so do
// those of several packets.
func (j *judge) inOrder(m *message, g *goroutine, ep *ucp.Endpoint) {
	f := flow{g, ep, m.s.Class}
	switch {
	case m.s.Class > amPersistent && j.l.workers[m.to].proc.plan.Multi:
		return
	case m.s.Class == amQueue && j.l.workers[m.to].proc.plan.uses("netshm"): // a queue of whole messages may fetch the data of one first
		return
	case max(8, m.s.Head)+m.size <= onePacket:
	case m.size > maxPacket && m.s.Flags&(flagEager|flagRndv) == flagEager:
		f.class += amClasses
	default:
		return
	}
	j.ams[f] = append(j.ams[f], m)
}

// maxPacket is the size of the largest packet of any transport.
const maxPacket = 64 << 10

// waitedInVain checks a wait for an active message of a class, from a time until now, that has ended without
// one: no message whose send had succeeded may have been there. Over netrc it may wait for an access before it,
// which the simulation carries out only when the sender makes progress, and over netud for room in the send
// queue, which only the sender's progress uses.
func (j *judge) waitedInVain(wk *worker, class int, from time.Duration) {
	if !j.l.readsAll() || wk.proc.plan.uses("netrc") {
		return
	}
	for k := range j.msgs {
		m := &j.msgs[k]
		if m.to != wk.number || m.s == nil || m.s.Kind != "am" || m.s.Class != class || m.isReply || m.got > 0 || m.settled {
			continue
		}
		o := m.sender
		if p := o.g.wk.proc.plan; p.uses("netud") && !p.Background {
			continue
		}
		if o.over && o.err == nil && j.l.w.now-max(o.at, from) > lateness {
			j.fail("worker %d has waited from %v to %v for active message %d (%s), which was sent at %v", wk.number, from, j.l.w.now, m.id, m.s, o.at)
		}
	}
}

// notSent records that a call has said that its message was not sent.
func (j *judge) notSent(m *message) {
	m.unsent = true
	if m.got > 0 {
		j.fail("message %d (%s) was received, but its send says that it was not sent", m.id, m.s)
	}
	j.settle(m)
}

// gets records that a message was received by a worker, or a part of it. ok is false if that is
// wrong.
func (j *judge) gets(id uint64, at *worker, kind string) (m *message, ok bool) {
	if id >= uint64(len(j.msgs)) || !j.msgs[id].sent {
		j.fail("worker %d received %s message %d, which was not sent", at.number, kind, id)
		return nil, false
	}
	m = &j.msgs[id]
	switch {
	case !j.trusts(m):
	case m.to != at.number:
		j.fail("worker %d received message %d (%s), which was sent to worker %d", at.number, id, m.s, m.to)
	case m.unsent:
		j.fail("message %d (%s) was received, but its send says that it was not sent", id, m.s)
	case m.got > 0:
		j.fail("message %d (%s) was received twice", id, m.s)
	}
	m.got++
	m.received = j.tick()
	j.received++
	return m, j.err == nil
}

// settle records that nothing more is to come of a message.
func (j *judge) settle(m *message) {
	if !m.settled {
		m.settled = true
		j.add(-1)
	}
}

// data checks the payload of a message.
func (j *judge) data(m *message, b []byte, what string) {
	if !j.trusts(m) {
		return
	}
	if len(b) != m.size {
		j.fail("%s of message %d (%s) has %d bytes, not %d", what, m.id, m.s, len(b), m.size)
	} else if k := mismatch(b, m.id); k >= 0 {
		j.fail("%s of message %d (%s) is wrong from byte %d of %d on", what, m.id, m.s, k, m.size)
	}
}

// matched checks a tag receive that has ended with a message.
func (j *judge) matched(o *op, info ucp.TagRecvInfo) {
	m, ok := j.gets(uint64(info.SenderTag>>classBits), o.g.wk, "tag")
	if !ok {
		return
	}
	m.recv = o
	o.m = m
	switch {
	case !j.trusts(m):
	case info.SenderTag != m.tag:
		j.fail("message %d has tag %#x, not %#x", m.id, info.SenderTag, m.tag)
	case (m.tag^o.tag)&o.mask != 0:
		j.fail("a receive of tag %#x, mask %#x got tag %#x", o.tag, o.mask, m.tag)
	case info.Length != m.size:
		j.fail("message %d (%s) has %d bytes, not %d", m.id, m.s, info.Length, m.size)
	case m.size > len(o.buf):
		j.fail("message %d (%s) of %d bytes was received into %d", m.id, m.s, m.size, len(o.buf))
	default:
		j.data(m, o.buf[:m.size], "the data")
		if k := notCanary(o.buf[m.size:]); k >= 0 {
			j.fail("a receive of message %d (%s) has written behind the message", m.id, m.s)
		}
	}
	j.settle(m)
}

// delivered checks a send that has succeeded: if its receiver has refused the message, its sender is told, and
// if it is synchronous, a receive has matched the message.
func (j *judge) delivered(o *op) {
	m := o.m
	if !j.trusts(m) {
		return
	}
	if m.refused {
		j.fail("the send of message %d (%s) has succeeded, but the receiver has refused it", m.id, m.s)
	}
	if o.s.Flags&flagSync == 0 || m.settled || m.got > 0 || j.l.workers[m.to].taking > 0 {
		return
	}
	for _, r := range j.recvs {
		if r.mayHaveMatched(m) {
			return
		}
	}
	j.fail("the synchronous send of message %d (%s) has ended before a receive has matched the message", m.id, m.s)
}

// mayHaveMatched reports whether a tag receive may have matched a message that it has not received: it may have lost
// the data with the connection to the sender, or by the close of its own endpoint.
func (o *op) mayHaveMatched(m *message) bool {
	switch {
	case o.g.wk.number != m.to || o.over && !o.truncated && !o.canceled && !o.lost:
		return false
	case o.taken != nil:
		return o.taken == m
	}
	return (m.tag^o.tag)&o.mask == 0
}

// truncated settles a message that was longer than the buffer of its receive. Such a receive does not
// say which message it was. Where messages may be lost, such a message is given up with them.
func (j *judge) truncated(o *op) {
	o.truncated = true
	o.g.wk.truncated++
	if !j.l.lossy {
		j.add(-1)
	}
}

// end checks everything that can be checked only when the program is over.
func (j *judge) end() {
	truncated := make([]int, len(j.l.workers))
	for i := range j.msgs {
		m := &j.msgs[i]
		switch {
		case !m.sent || m.unsent || m.got == 1:
		case m.got == 0 && m.sender.g.wk.isBroken(m.to):
		case m.got == 0 && j.couldBeTruncated(m):
			truncated[m.to]++
		default:
			j.fail("message %d (%s) to worker %d was not received", m.id, m.s, m.to)
		}
	}
	for i, wk := range j.l.workers {
		if truncated[i] != wk.truncated && !j.l.lossy {
			j.fail("worker %d: %d receives were truncated, but %d messages were not received", i, wk.truncated, truncated[i])
		}
	}
	j.order()
	j.amOrder()
	j.posted()
	for _, wk := range j.l.workers {
		if wk.packs != 0 || wk.unpacks != 0 {
			j.fail("worker %d: %d packings and %d unpackings of datatypes were not finished", wk.number, wk.packs, wk.unpacks)
		}
	}
	if at := j.arena.written(); at != "" {
		j.fail("a buffer was written after the end of its operation: %s", at)
	}
}

// couldBeTruncated reports whether some receive with a buffer that is too small has taken m.
func (j *judge) couldBeTruncated(m *message) bool {
	for _, o := range j.recvs {
		if o.truncated && o.g.wk.number == m.to && len(o.buf) < m.size && (m.tag^o.tag)&o.mask == 0 {
			return true
		}
	}
	return false
}

// order checks the order of the tagged messages of each goroutine and endpoint: for m1 before m2, if
// the receive that matched m2 also accepts the tag of m1, m1 was matched by a receive that was posted
// before.
func (j *judge) order() {
	for _, list := range j.flows {
		for k, m2 := range list {
			r2 := m2.recv
			if r2 == nil || !j.trusts(m2) {
				continue
			}
			for _, m1 := range list[max(0, k-64):k] {
				if m1.unsent || (m1.tag^r2.tag)&r2.mask != 0 || m1.recv == nil {
					continue
				}
				if m1.recv.begin > r2.posted && !j.returned(m1) {
					j.fail("message %d (%s) was overtaken by message %d (%s): receives %d and %d", m1.id, m1.s, m2.id, m2.s, m1.recv.begin, r2.posted)
				}
			}
		}
	}
}

// amOrder checks the order of active messages.
func (j *judge) amOrder() {
	for _, list := range j.ams {
		var last *message
		for _, m := range list {
			switch {
			case m.got == 0 || !j.trusts(m):
			case last != nil && m.received < last.received:
				j.fail("active message %d (%s) came before message %d", m.id, m.s, last.id)
			default:
				last = m
			}
		}
	}
}

// returned reports whether a receive that was canceled may have had the message before.
func (j *judge) returned(m *message) bool {
	for _, o := range j.recvs {
		if o.canceled && o.g.wk.number == m.to && (m.tag^o.tag)&o.mask == 0 {
			return true
		}
	}
	return false
}

// posted checks that no message has passed a receive that was posted before the one that got it, and that had
// no message itself.
func (j *judge) posted() {
	for _, a := range j.recvs {
		if !a.idle || a.taken != nil || a.g.wk.proc.plan.Multi {
			continue
		}
		for _, b := range j.recvs {
			m := b.m
			if m == nil || !j.trusts(m) || b.g.wk != a.g.wk || b.begin < a.posted || b.ended > a.stopped || (m.tag^a.tag)&a.mask != 0 {
				continue
			}
			if !j.returned(m) && !j.hadPart(a, b.ended) {
				j.fail("message %d (%s) has passed a receive of tag %#x, mask %#x, that was posted before the one that got it", m.id, m.s, a.tag, a.mask)
			}
		}
	}
}

// hadPart reports whether a receive that was canceled without a whole message may have had a part of a message
// that was sent before a time, and whose rest is lost.
func (j *judge) hadPart(o *op, before uint64) bool {
	for i := range j.msgs {
		m := &j.msgs[i]
		if m.sent && !m.unsent && m.got == 0 && m.to == o.g.wk.number && m.sender.begin < before && m.sender.g.wk.isBroken(m.to) &&
			m.size > onePacket && m.size <= len(o.buf) && (m.tag^o.tag)&o.mask == 0 {
			return true
		}
	}
	return false
}

// expect checks the error of an operation.
func (j *judge) expect(o *op, err error, what string) {
	if err != nil && !j.disturbed(o) && !o.allowed(err) {
		j.fail("%s ended with an error: %v (%s of worker %d)", what, err, o.s, o.g.wk.number)
	}
}

// disturbed reports whether an operation may have lost its peer.
func (j *judge) disturbed(o *op) bool {
	if j.l.faultless() {
		return false
	}
	if !kinds[o.s.Kind].peer {
		return len(j.l.broken) > 0
	}
	return o.g.wk.isBroken(o.s.Peer)
}

// allowed reports whether the operation may end with an error in a run without faults.
func (o *op) allowed(err error) bool {
	return o.m != nil && o.m.mayErr != nil && errors.Is(err, o.m.mayErr) || (o.stopped != 0 && o.mayCancel || o.waited) && errors.Is(err, ucs.ErrCanceled)
}

// Patterns of data.

const patternLen = 65521

var pattern = func() []byte {
	b := make([]byte, 2*patternLen)
	r := rand.New(rand.NewPCG(1, 2))
	for k := range b[:patternLen] {
		b[k] = byte(r.Uint32())
	}
	copy(b[patternLen:], b)
	return b
}()

// fill fills b with the data of a message, which begins with its number.
func fill(b []byte, id int) {
	fillStream(b, uint64(id)*7919)
	if len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, uint64(id))
	}
}

// mismatch returns the first byte of b that is not that of a message, or -1.
func mismatch(b []byte, id int) int {
	if len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != uint64(id) {
			return 0
		}
		if k := mismatchStream(b[8:], uint64(id)*7919+8); k >= 0 {
			return 8 + k
		}
		return -1
	}
	return mismatchStream(b, uint64(id)*7919)
}

// fillStream fills b with the bytes of a stream from a position on.
func fillStream(b []byte, at uint64) {
	for len(b) > 0 {
		n := copy(b, pattern[at%patternLen:][:patternLen])
		b, at = b[n:], at+uint64(n)
	}
}

// mismatchStream returns the first byte of b that is not that of a stream, or -1.
func mismatchStream(b []byte, at uint64) int {
	done := 0
	for len(b) > 0 {
		n := min(len(b), patternLen)
		want := pattern[at%patternLen:][:n]
		if !bytes.Equal(b[:n], want) {
			for k := range want {
				if b[k] != want[k] {
					return done + k
				}
			}
		}
		b, at, done = b[n:], at+uint64(n), done+n
	}
	return -1
}

// canary is the content of memory that no operation uses.
var canary = bytes.Repeat([]byte{0xc5}, 1<<16)

func fillCanary(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, canary):]
	}
}

// notCanary returns the first byte of b that is not canary, or -1.
func notCanary(b []byte) int {
	done := 0
	for len(b) > 0 {
		n := min(len(b), len(canary))
		if !bytes.Equal(b[:n], canary[:n]) {
			for k := range n {
				if b[k] != canary[0] {
					return done + k
				}
			}
		}
		b, done = b[n:], done+n
	}
	return -1
}

// arena is the memory of the buffers of a program. Memory that no operation uses is canary, so at the
// end of the program all of it must be.
type arena struct {
	blocks [][]byte
	k      int // block in use
	used   int // bytes of it
	owners []owner
}

type owner struct {
	b    []byte
	what string
}

const (
	arenaBlock = 4 << 20
	guard      = 16 // bytes between two buffers
	maxSpare   = 64 // blocks to keep
)

// spare are blocks of arenas of earlier programs, which are canary.
var spare [][]byte

// take returns n bytes that are canary.
func (a *arena) take(n int) []byte {
	need := (n+guard+7)&^7 + guard
	for {
		if a.k < len(a.blocks) && a.used+need <= len(a.blocks[a.k]) {
			b := a.blocks[a.k][a.used : a.used+n : a.used+n]
			a.used += need
			return b
		}
		if a.k < len(a.blocks) {
			a.k++
		}
		a.used = 0
		if a.k == len(a.blocks) {
			if k := len(spare); k > 0 && need <= arenaBlock {
				a.blocks = append(a.blocks, spare[k-1])
				spare = spare[:k-1]
				continue
			}
			b := make([]byte, max(arenaBlock, need))
			fillCanary(b)
			a.blocks = append(a.blocks, b)
		}
	}
}

// written returns where the arena is not canary, or "".
func (a *arena) written() string {
	for i, b := range a.blocks {
		if i == a.k {
			b = b[:a.used]
		}
		if k := notCanary(b); k >= 0 {
			for _, o := range a.owners {
				if len(o.b) > 0 && len(b[k:]) > 0 && within1(o.b, &b[k]) {
					return o.what
				}
			}
			end := min(len(b), k+32)
			return fmt.Sprintf("block %d, byte %d: % x", i, k, b[k:end])
		}
	}
	return ""
}

// within1 reports whether p points into b.
func within1(b []byte, p *byte) bool {
	for k := range b {
		if &b[k] == p {
			return true
		}
	}
	return false
}

// release gives the blocks to later programs, if all is canary.
func (a *arena) release(clean bool) {
	if clean {
		for _, b := range a.blocks {
			if len(b) == arenaBlock && len(spare) < maxSpare {
				spare = append(spare, b)
			}
		}
	}
	a.blocks = nil
}
