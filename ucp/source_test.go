package ucp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/account"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// conn is a connection of a transport on which messages arrive.
type conn struct {
	uct.Source
	dropped error
	ended   bool
	checks  int   // calls of CheckSource
	shared  bool  // one of the worker's endpoints sends on it
	why     error // the reason for its end
}

func newConn() *conn {
	c := new(conn)
	c.Owner = c
	return c
}

func (c *conn) DropSource(err error) {
	c.dropped = err
	c.Gone()
}

func (c *conn) EndSource() { c.ended = true }

func (c *conn) CheckSource() { c.checks++ }

func (c *conn) SourceShared() bool { return c.shared }

func (c *conn) SourceError() error { return c.why }

func first(tag Tag, id proto.MessageID, total int, payload []byte) []byte {
	return append(proto.EagerFirst{Tag: proto.Tag(tag), TotalLen: total, MsgID: id}.Append(nil), payload...)
}

func middle(id proto.MessageID, off int, payload []byte) []byte {
	return append(proto.EagerMiddle{MsgID: id, Offset: off}.Append(nil), payload...)
}

func eagerOnly(tag Tag, payload []byte) []byte {
	return append(proto.EagerOnly{Tag: proto.Tag(tag)}.Append(nil), payload...)
}

// handle runs a handler, which must accept the message.
func (v *targetWorker) handle(h uct.AMHandler, c *conn, data []byte) {
	v.Helper()
	if err := h(&c.Source, data, nil); err != nil {
		v.Fatal(err)
	}
}

// passOrphanTime lets the time pass after which orphans are abandoned.
func (v *targetWorker) passOrphanTime() {
	for n := v.eager.orphans.Front(); n != nil; n = n.Next() {
		n.Value.until = 0
	}
	v.eager.expireOrphans()
}

// checkEmpty checks that nothing is held or charged for any connection.
func (v *targetWorker) checkEmpty(conns ...*conn) {
	v.Helper()
	if n, bytes := len(v.eager.assemblies), v.accounts.Held(); n != 0 || bytes != 0 || !v.eager.orphans.Empty() {
		v.Errorf("%d assemblies and %d bytes are left, orphans %v", n, bytes, !v.eager.orphans.Empty())
	}
	for _, s := range v.allSources() {
		if s.Held() != 0 || s.Opened() != 0 || !s.fragments.Empty() {
			v.Errorf("a connection still pays for %d bytes and %d endpoints, fragments %v", s.Held(), s.Opened(), !s.fragments.Empty())
		}
	}
	for _, c := range conns {
		if s, ok := c.User.(*source); ok && s.Held() != 0 {
			v.Errorf("%d bytes are charged for nothing", s.Held())
		}
	}
}

// allSources returns the sources that the worker has a record of.
func (v *targetWorker) allSources() (list []*source) {
	v.accounts.Each(func(p *account.Account) {
		p.EachOwner(func(o account.Owner) { list = append(list, o.(*source)) })
	})
	return list
}

// TestSenderDiesMidMessage: a connection ends before a message is complete. The message is
// abandoned after the orphan time, in whatever state it is.
func TestSenderDiesMidMessage(t *testing.T) {
	for name, run := range map[string]func(v *targetWorker, c *conn) *Request{
		"matched": func(v *targetWorker, c *conn) *Request {
			r := v.post(1, 100)
			v.handle(v.tag.onEagerFirst, c, first(1, 7, 100, make([]byte, 40)))
			return r
		},
		"matched between fragments": func(v *targetWorker, c *conn) *Request {
			v.handle(v.tag.onEagerFirst, c, first(1, 7, 100, make([]byte, 40)))
			r := v.post(1, 100)
			v.handle(v.tag.onEagerMiddle, c, middle(7, 40, make([]byte, 40)))
			return r
		},
		"truncated": func(v *targetWorker, c *conn) *Request {
			r := v.post(1, 10)
			v.handle(v.tag.onEagerFirst, c, first(1, 7, 100, make([]byte, 40)))
			if !errors.Is(r.Err(), ucs.ErrMessageTruncated) {
				v.Errorf("a short receive: %v", r.Err())
			}
			return nil
		},
		"unexpected": func(v *targetWorker, c *conn) *Request {
			v.handle(v.tag.onEagerFirst, c, first(1, 7, 100, make([]byte, 40)))
			return nil
		},
		"without its first fragment": func(v *targetWorker, c *conn) *Request {
			v.handle(v.tag.onEagerMiddle, c, middle(7, 40, make([]byte, 40)))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTarget(t)
			c := newConn()
			c.why = errors.New("of old age")
			r := run(v, c)
			c.Gone()
			if r != nil && r.Done() {
				t.Fatalf("ended at once, although the rest may come on another connection: %v", r.Err())
			}
			v.passOrphanTime()
			if r != nil && (!r.Done() || !errors.Is(r.Err(), ucs.ErrConnectionReset) || !errors.Is(r.Err(), c.why)) {
				t.Errorf("the receive: done %v, %v", r.Done(), r.Err())
			}
			if _, found := v.TagPeek(1, FullMask); found {
				t.Error("a message that cannot be received is found")
			}
			if v.Stats().Abandoned != 1 {
				t.Errorf("%d messages given up", v.Stats().Abandoned)
			}
			v.checkEmpty(c)
		})
	}
}

// post posts a receive.
func (v *targetWorker) post(tag Tag, n int) *Request {
	v.Helper()
	r, err := v.TagRecv(tag, FullMask, make([]byte, n), &RequestParams{Flags: OpNoImmediate})
	if err != nil {
		v.Fatal(err)
	}
	return r
}

// TestProbedMessageDies: the application has taken an incomplete message whose rest never arrives.
// Its receive fails.
func TestProbedMessageDies(t *testing.T) {
	v := newTarget(t)
	c := newConn()
	v.handle(v.tag.onEagerFirst, c, first(1, 7, 100, make([]byte, 40)))
	m, found := v.TagTake(1, FullMask)
	if !found {
		t.Fatal("the message is not found")
	}
	c.Gone()
	v.passOrphanTime()
	r, err := m.Recv(make([]byte, 100), &RequestParams{Flags: OpNoImmediate})
	if err != nil || !r.Done() || !errors.Is(r.Err(), ucs.ErrConnectionReset) {
		t.Errorf("receiving it: %v, %v", err, r.Err())
	}
	v.checkEmpty(c)
}

// TestFragmentsOutliveTheirConnection: the fragments of a message arrive on two connections of
// which the first ends early. The message is received, also if the second connection brings all of
// its fragments after that end.
func TestFragmentsOutliveTheirConnection(t *testing.T) {
	for _, late := range []bool{false, true} {
		v := newTarget(t)
		a, b := newConn(), newConn()
		payload := []byte("0123456789")
		buf := make([]byte, len(payload))
		r, err := v.TagRecv(1, FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		v.handle(v.tag.onEagerFirst, a, first(1, 7, len(payload), payload[:4]))
		if !late {
			v.handle(v.tag.onEagerMiddle, b, middle(7, 4, payload[4:6]))
		}
		a.Gone()
		if late {
			v.handle(v.tag.onEagerMiddle, b, middle(7, 4, payload[4:6]))
		}
		v.passOrphanTime()
		v.handle(v.tag.onEagerMiddle, b, middle(7, 6, payload[6:]))
		if !r.Done() || r.Err() != nil || !bytes.Equal(buf, payload) {
			t.Errorf("late %v: done %v, %v, %q", late, r.Done(), r.Err(), buf)
		}
		v.checkEmpty(a, b)
	}
}

// TestOrphanTimer checks that a blocked call ends when the orphan time is over.
func TestOrphanTimer(t *testing.T) {
	v := newTarget(t)
	c := newConn()
	r := v.post(1, 100)
	v.handle(v.tag.onEagerFirst, c, first(1, 7, 100, make([]byte, 40)))
	c.Gone()
	if err := r.Wait(t.Context()); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Error(err)
	}
	v.checkEmpty(c)
}

// TestOrphansWithoutTimer checks that orphans end although no descriptor is available for a timer,
// and that the timer is used as soon as a descriptor is available.
func TestOrphansWithoutTimer(t *testing.T) {
	v := newTarget(t, "KEEPALIVE_INTERVAL", "0")
	v.log.Expect("cannot set the timer for incomplete messages")
	c := newConn()
	r := v.post(1, 100)
	v.handle(v.tag.onEagerFirst, c, first(1, 7, 100, make([]byte, 40)))
	restore := noDescriptors(t)
	c.Gone()
	v.Progress()
	if !v.eager.untimed || v.eager.timer != nil || r.Done() {
		t.Fatalf("there is a timer, or the receive is done %v: the test tests nothing", r.Done())
	}
	if err := v.wake.arm(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("asleep without a timer: %v", err)
	}
	v.eager.orphans.Front().Value.until = 0 // the orphan time is over
	v.Progress()
	if !r.Done() || !errors.Is(r.Err(), ucs.ErrConnectionReset) || v.eager.untimed {
		t.Errorf("the receive: done %v, %v, still without timer %v", r.Done(), r.Err(), v.eager.untimed)
	}

	again := v.post(1, 100)
	c = newConn()
	v.handle(v.tag.onEagerFirst, c, first(1, 8, 100, make([]byte, 40)))
	c.Gone()
	v.Progress()
	restore()
	v.Progress()
	if v.eager.untimed || v.eager.timer == nil {
		t.Error("the timer was not tried again")
	}
	if err := again.Wait(t.Context()); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Error(err)
	}
	v.checkEmpty(c)
}

// TestOffenderEvicted checks that at the limit the connection that holds the most is dropped and
// loses its messages, and that other connections are still served.
func TestOffenderEvicted(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
	v.log.Expect("dropping the connection that holds the most")
	hog, modest := newConn(), newConn()
	v.handle(v.tag.onEagerOnly(), modest, eagerOnly(1, make([]byte, 100)))
	v.handle(v.tag.onEagerFirst, hog, first(2, 7, 60_000, make([]byte, 1000)))
	v.handle(v.tag.onEagerMiddle, hog, middle(8, 40, make([]byte, 1000)))
	v.handle(v.tag.onEagerFirst, hog, first(4, 9, 60_000, make([]byte, 1000)))
	fourth := v.post(4, 60_000) // a receive that has got a part of its message
	v.fill(hog)
	v.handle(v.tag.onEagerOnly(), modest, eagerOnly(1, make([]byte, 6000)))
	if !errors.Is(hog.dropped, ucs.ErrExceedsLimit) || modest.dropped != nil {
		t.Fatalf("dropped: %v and %v", hog.dropped, modest.dropped)
	}
	if !strings.Contains(hog.dropped.Error(), "UCX_MAX_UNEXP_BYTES=65536") {
		t.Errorf("%q does not name the setting", hog.dropped)
	}
	for tag, want := range map[Tag]bool{1: true, 2: false, 3: false} {
		if _, found := v.TagPeek(tag, FullMask); found != want {
			t.Errorf("messages with tag %d: found %v", tag, found)
		}
	}
	// The first fragment of a message whose other fragments were discarded.
	if err := v.tag.onEagerFirst(&modest.Source, first(5, 8, 60_000, make([]byte, 40)), nil); err != nil {
		t.Error(err)
	}
	modest.Gone()
	v.passOrphanTime()
	if !errors.Is(fourth.Err(), ucs.ErrConnectionReset) {
		t.Errorf("the receive of the hog's message: %v", fourth.Err())
	}
	v.tag.dropMessages()
	v.checkEmpty(hog, modest)
	if v.Stats().Evicted != 1 {
		t.Errorf("%d connections dropped", v.Stats().Evicted)
	}
	// A single message that exceeds the limit.
	if err := v.tag.onEagerOnly()(&newConn().Source, eagerOnly(1, make([]byte, 70_000)), nil); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Error(err)
	}
}

// TestEvictedWhileAdding: a fragment exceeds the limit, and the connection that is dropped for it
// has brought the earlier fragments of the same message.
func TestEvictedWhileAdding(t *testing.T) {
	for _, withFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("first ", withFirst), func(t *testing.T) {
			v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
			v.log.Expect("dropping the connection that holds the most")
			hog, other := newConn(), newConn()
			if withFirst {
				v.handle(v.tag.onEagerFirst, hog, first(1, 7, 100_000, make([]byte, 8000)))
			} else {
				v.handle(v.tag.onEagerMiddle, hog, middle(7, 40_000, make([]byte, 8000)))
			}
			v.fill(hog)
			if withFirst {
				v.handle(v.tag.onEagerMiddle, other, middle(7, 20_000, make([]byte, 6000)))
			} else if err := v.tag.onEagerFirst(&other.Source, first(1, 7, 100_000, make([]byte, 6000)), nil); !errors.Is(err, ucs.ErrExceedsLimit) {
				t.Errorf("the first fragment of a message that was thrown away: %v", err)
			}
			if hog.dropped == nil {
				t.Error("the hog was not dropped: the test tests nothing")
			}
			if _, found := v.TagPeek(1, FullMask); found {
				t.Error("a message that lost its beginning is found")
			}
			v.passOrphanTime()
			v.checkEmpty(hog, other)
		})
	}
}

// TestEndpointsOfOffender checks that a peer that opens too many endpoints does not keep other
// peers from opening theirs.
func TestEndpointsOfOffender(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_EPS", "20")
	v.log.Expect("dropping the connection that holds the most")
	hog, modest := newConn(), newConn()
	for k := range uint64(19) {
		if err := v.opens(hog, 100+k, 0); err != nil {
			t.Fatal(err)
		}
	}
	for k := range uint64(2) {
		if err := v.opens(modest, 200+k, 0); err != nil {
			t.Errorf("endpoint %d of a modest peer: %v", k, err)
		}
	}
	if !errors.Is(hog.dropped, ucs.ErrExceedsLimit) || modest.dropped != nil || v.wireups.unexpected != 2 {
		t.Fatalf("dropped %v and %v, %d endpoints of peers", hog.dropped, modest.dropped, v.wireups.unexpected)
	}
	if !strings.Contains(hog.dropped.Error(), "UCX_MAX_UNEXP_EPS=20") {
		t.Errorf("%q does not name the setting", hog.dropped)
	}
}

// TestRefusedWithoutSource: a limit refuses a fragment that came over shared memory. The rest of the message is
// dropped too, whichever fragment was refused, and nothing of it stays. A message that fits is kept.
func TestRefusedWithoutSource(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "6k")
	v.log.Allow("refusing a peer's request")
	big, small := make([]byte, 4096), make([]byte, 512)
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, ucs.ErrExceedsLimit) {
			t.Fatalf("a fragment beyond the limit: %v", err)
		}
	}
	taken := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	taken(v.tag.onEagerFirst(nil, first(1, 1, len(big)+8192, big), nil)) // stays until its second fragment is refused
	held := v.Stats().UnexpectedBytes
	refused(v.tag.onEagerFirst(nil, first(1, 2, 2*len(big), big), nil))
	taken(v.tag.onEagerMiddle(nil, middle(2, len(big), big), nil)) // dropped
	if n := v.Stats().UnexpectedBytes; n != held {
		t.Errorf("%d bytes are held after a refused message, %d before", n, held)
	}
	refused(v.tag.onEagerMiddle(nil, middle(1, len(big), make([]byte, 8192)), nil))
	if n := v.Stats().UnexpectedBytes; n != 0 || len(v.eager.assemblies) != 0 {
		t.Errorf("%d bytes of a message are held of which a fragment was refused", n)
	}
	refused(v.tag.onEagerMiddle(nil, middle(3, len(small), make([]byte, 8192)), nil)) // before the first fragment
	if n := len(v.eager.refused); n != 1 || len(v.eager.refusedKeys) != n {
		t.Errorf("%d messages are remembered as refused", n)
	}
	taken(v.tag.onEagerFirst(nil, first(1, 3, 8192+len(small), small), nil))
	if n := len(v.eager.refused); n != 0 || len(v.eager.refusedKeys) != n {
		t.Errorf("%d messages are remembered as refused of which all fragments have come", n)
	}
	r := v.post(1, len(small))
	taken(v.tag.onEagerFirst(nil, first(1, 4, len(small), small), nil))
	if !r.Done() || r.Err() != nil {
		t.Errorf("a message after that: %v", r.Err())
	}
}

// TestSendersChecked: the transport is asked to check the connections of incomplete messages. Those that have
// ended are forgotten, whatever the interval of the keepalive.
func TestSendersChecked(t *testing.T) {
	for _, interval := range []string{"0", "inf", "20s"} {
		v := newTarget(t, "KEEPALIVE_INTERVAL", interval)
		c, gone := newConn(), newConn()
		v.handle(v.tag.onEagerFirst, c, first(1, 1, 80, make([]byte, 40)))
		v.handle(v.tag.onEagerFirst, gone, first(1, 2, 80, make([]byte, 40)))
		gone.Gone()
		for range 2 {
			v.eager.lookForSenders()
		}
		v.handle(v.tag.onEagerMiddle, c, middle(1, 40, make([]byte, 40)))
		v.eager.lookForSenders()
		if c.checks != 2 || gone.checks != 0 || len(v.eager.checked) != 0 {
			t.Errorf("interval %s: %d checks, %d of an ended connection, %d connections left", interval, c.checks, gone.checks, len(v.eager.checked))
		}
		for n := range 1000 {
			c := newConn()
			v.handle(v.tag.onEagerMiddle, c, middle(proto.MessageID(100+n), 40, make([]byte, 10)))
			c.Gone()
		}
		if n := len(v.eager.checked); n > 2*minChecked {
			t.Errorf("interval %s: %d connections are left of 1000 that have ended", interval, n)
		}
	}
}
