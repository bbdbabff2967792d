package ucp

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Tests of the messages, endpoints and requests of a connection that is evicted, or
// that fails during an operation.

// fill delivers messages over a connection up to a limit of 64 KiB.
func (v *targetWorker) fill(c *conn) {
	v.Helper()
	v.log.Allow("dropping the connection that holds the most")
	for v.accounts.Held() < 60_000 {
		v.handle(v.tag.onEagerOnly(), c, eagerOnly(3, make([]byte, 1000)))
	}
}

// opens lets a peer open an endpoint over a connection.
func (v *targetWorker) opens(c *conn, uuid uint64, sn uint16) error {
	v.Helper()
	m := v.stranger(uuid, sn)
	b, err := m.Append(nil)
	if err != nil {
		v.Fatal(err)
	}
	return v.wireups.onWireup(&c.Source, b, nil)
}

// TestProbedMessageEvicted: the receive of a message that the application has taken
// fails if the connection is evicted before the rest of the message has arrived.
func TestProbedMessageEvicted(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
	hog, other := newConn(), newConn()
	v.handle(v.tag.onEagerFirst, hog, first(1, 7, 100, make([]byte, 40)))
	m, _ := v.TagTake(1, FullMask)
	v.fill(hog)
	v.handle(v.tag.onEagerOnly(), other, eagerOnly(9, make([]byte, 6000)))
	if hog.dropped == nil {
		t.Fatal("the hog was not dropped: the test tests nothing")
	}
	r, err := m.Recv(make([]byte, 100), &RequestParams{Flags: OpNoImmediate})
	if err != nil || !r.Done() || r.Err() == nil {
		t.Errorf("receiving it: %v, done %v, %v", err, r.Done(), r.Err())
	}
}

// TestEvictedHalf: a message is dropped as a whole if the connection of its last
// fragment is evicted, even if its first fragment came over another connection.
func TestEvictedHalf(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
	hog, other := newConn(), newConn()
	v.handle(v.tag.onEagerFirst, other, first(1, 7, 100, make([]byte, 40)))
	v.handle(v.tag.onEagerMiddle, hog, middle(7, 40, make([]byte, 10)))
	v.fill(hog)
	v.handle(v.tag.onEagerOnly(), other, eagerOnly(9, make([]byte, 6000)))
	if hog.dropped == nil {
		t.Fatal("the hog was not dropped: the test tests nothing")
	}
	if _, found := v.TagPeek(1, FullMask); found {
		t.Error("a message that will never be complete is found")
	}
	v.tag.dropMessages()
	v.checkEmpty(hog, other)
}

// TestRefusedMiddle: a fragment that is refused leaves nothing.
func TestRefusedMiddle(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
	c := newConn()
	if err := v.tag.onEagerMiddle(&c.Source, middle(100, 40, make([]byte, 70_000)), nil); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Fatal(err)
	}
	v.checkEmpty(c)
}

// TestFragmentsWithoutBytes: messages under assembly are charged even if their
// fragments are empty.
func TestFragmentsWithoutBytes(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
	v.log.Expect("dropping the connection that holds the most")
	hog, modest := newConn(), newConn()
	for k := 0; v.accounts.Held() < 65_300; k++ {
		v.handle(v.tag.onEagerMiddle, hog, middle(proto.MessageID(1000+k), 40, nil))
	}
	v.handle(v.tag.onEagerFirst, modest, first(1, 7, 100, make([]byte, 40)))
	if hog.dropped == nil || modest.dropped != nil {
		t.Errorf("dropped: %v and %v", hog.dropped, modest.dropped)
	}
}

// TestLimitsOutliveConnections: what a connection has brought stays charged when the
// connection is closed, and still counts when a limit is reached.
func TestLimitsOutliveConnections(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
		hog, modest := newConn(), newConn()
		v.fill(hog)
		hog.Gone()
		v.handle(v.tag.onEagerOnly(), modest, eagerOnly(1, make([]byte, 6000)))
		v.tag.dropMessages()
		v.checkEmpty(hog, modest)
	})
	t.Run("endpoints", func(t *testing.T) {
		v := newTarget(t, "MAX_UNEXP_EPS", "5")
		v.log.Expect("dropping the connection that holds the most")
		hog, modest := newConn(), newConn()
		for k := range uint64(6) {
			c := hog
			if k == 5 {
				hog.Gone()
				c = modest
			}
			if err := v.opens(c, 100+k, 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestEvictionKeepsPeer: the endpoint that a peer opens is recorded for the peer,
// even if the peer's other endpoints have just ended with an evicted connection.
func TestEvictionKeepsPeer(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_EPS", "5")
	v.log.Expect("dropping the connection that holds the most")
	hog, modest := newConn(), newConn()
	for k := range uint16(6) {
		c := hog
		if k == 5 {
			c = modest
		}
		if err := v.opens(c, 100, k); err != nil {
			t.Fatal(err)
		}
	}
	v.endpoints.Each(func(ep *Endpoint) {
		if ep.w.accounts.openedBy(ep) != nil && v.peers.Find(ep.peer.UUID(), ep.peer.Entries()) == nil {
			t.Error("an endpoint of a peer that the worker does not know")
		}
	})
}

// TestCallbackOfEviction: callbacks of operations that an eviction ends run later,
// and not while the message that needs the room is being handled.
func TestCallbackOfEviction(t *testing.T) {
	for name, send := range map[string]func(v *targetWorker, c *conn, payload []byte, last bool){
		"whole": func(v *targetWorker, c *conn, payload []byte, last bool) {
			if last {
				v.handle(v.tag.onEagerOnly(), c, eagerOnly(9, payload))
			}
		},
		"fragments": func(v *targetWorker, c *conn, payload []byte, last bool) {
			if last {
				v.handle(v.tag.onEagerMiddle, c, middle(7, 40, payload[40:]))
			} else {
				v.handle(v.tag.onEagerFirst, c, first(9, 7, len(payload), payload[:40]))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
			hog, other := newConn(), newConn()
			payload, got := bytes.Repeat([]byte{0xAB}, 6040), make([]byte, 6040)
			send(v, other, payload, false)
			v.fill(hog)
			v.ep.w.accounts.chargeTo(v.ep, v.accounts.sourceOf(&hog.Source)) // as one that the hog opened
			v.ep.life.Stage = life.Serving
			r := v.fetching(make([]byte, 1<<20))
			var late *Request
			r.state |= stateParams
			r.onTagRecv = func(*Request, error, TagRecvInfo, any) {
				late = v.post(9, len(got))
				late.data.Buf = got
			}
			send(v, other, payload, true)
			if late != nil {
				t.Fatal("told in the middle of a message")
			}
			v.Progress()
			if late == nil || !late.Done() || late.Err() != nil {
				t.Fatalf("the receive that the callback posted: %v", late.Err())
			}
			if _, found := v.TagPeek(9, FullMask); found {
				t.Error("the message is still there")
			}
			v.tag.dropMessages()
			v.checkEmpty(hog, other)
		})
	}
}

// queueEndpoint is a lane on which all operations stay pending.
type queueEndpoint struct {
	refuse
	q uct.PendingQueue
}

func (e *queueEndpoint) PendingPurge(fn func(*uct.Pending)) { e.q.Purge(fn) }

// TestCloseInPurge: a callback may close the endpoint while the requests of its first
// lane are being ended.
func TestCloseInPurge(t *testing.T) {
	v := newTarget(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address})
	if err != nil {
		t.Fatal(err)
	}
	old := ep.lanes[0]
	defer old.uct.Close()
	one, two := &queueEndpoint{}, &queueEndpoint{}
	ep.lanes = []lane{{iface: old.iface, uct: one}, {iface: old.iface, uct: two}}
	ep.ue = one
	r := v.pool.getRequest()
	r.ep, r.proto, r.state = ep, eagerBcopy{}, stateParams
	called := 0
	r.onSend = func(*Request, error, any) {
		called++
		if _, err := ep.CloseAsync(nil); err != nil {
			t.Error(err)
		}
	}
	one.q.Add(&r.pend)
	ep.fail(ucs.ErrConnectionReset)
	if called != 1 {
		t.Errorf("the callback ran %d times", called)
	}
}

// TestCloseInDelivery: a synchronous send ends even if a callback closes its endpoint
// inside the call of the send.
func TestCloseInDelivery(t *testing.T) {
	v := newTarget(t)
	if _, err := v.TagRecv(1, FullMask, make([]byte, 8), &RequestParams{
		OnTagRecv: func(*Request, error, TagRecvInfo, any) {
			if _, err := v.ep.CloseAsync(nil); err != nil {
				t.Error(err)
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	r, err := v.ep.TagSendSync(1, make([]byte, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		v.Progress()
	}
	if !r.Done() {
		t.Error("the send hangs")
	}
}
