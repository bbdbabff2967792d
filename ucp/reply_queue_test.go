package ucp

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/account"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// What happens to answers that a peer does not read.

// stalledLane is a lane that sends room messages and then refuses more.
type stalledLane struct {
	refuse
	q     uct.PendingQueue
	room  int
	taken []proto.AMID
}

func (l *stalledLane) send(id uct.AMID, p uct.Packer) (int, error) {
	if l.room == 0 || l.q.Blocks() {
		return 0, ucs.ErrNoResource
	}
	l.room--
	l.taken = append(l.taken, proto.AMID(id))
	return p.Pack(make([]byte, 4096)), nil
}

func (l *stalledLane) AMBcopy(id uct.AMID, p uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	return l.send(id, p)
}

func (l *stalledLane) AMShort(id uct.AMID, _ uint64, _ []byte, _ uct.SendFlags, _ *uct.Completion) error {
	_, err := l.send(id, nothing{})
	return err
}

// nothing is a packer of empty messages.
type nothing struct{}

func (nothing) Pack([]byte) int { return 0 }

func (l *stalledLane) PendingAdd(p *uct.Pending) error {
	if l.room > 0 && l.q.Empty() {
		return ucs.ErrBusy
	}
	l.q.Add(p)
	return nil
}

func (l *stalledLane) PendingPurge(fn func(*uct.Pending)) { l.q.Purge(fn) }

// deaf opens an endpoint whose lanes are stalled, as toward a peer that does not read.
func (v *targetWorker) deaf() (*Endpoint, *stalledLane) {
	v.Helper()
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address})
	if err != nil {
		v.Fatal(err)
	}
	l := new(stalledLane)
	for i := range ep.lanes {
		old := ep.lanes[i].uct
		v.Cleanup(old.Close)
		ep.lanes[i].uct = l
	}
	ep.ue = l
	return ep, l
}

// syncFlood has a connection deliver n synchronous messages, each of which finds a receive.
func (v *targetWorker) syncFlood(c *sited, ep *Endpoint, n int) {
	v.Helper()
	m := proto.EagerSyncOnly{Tag: 1, EpID: ep.localID, ReqID: 7}.Append(nil)
	for range n {
		if c.dropped != nil || c.paused {
			return
		}
		if err := v.tag.onEagerSyncOnly(&c.Source, m, nil); err != nil {
			c.DropSource(err)
			return
		}
		if _, err := v.TagRecv(1, FullMask, nil, nil); err != nil {
			v.Fatal(err)
		}
	}
}

// TestUnreadAnswers: a worker stops reading from a peer that leaves too many answers unread, and
// holds little memory for it until then. When the peer reads again, the worker does too.
func TestUnreadAnswers(t *testing.T) {
	v := newServer(t, "MAX_UNEXP_BYTES", "1g")
	v.accounts.Limits.StopReplies = 1 << 20
	c := from("192.0.2.66")
	ep, lane := v.deaf()
	before := v.stats.Requests
	v.syncFlood(c, ep, 1_000_000)
	s := c.User.(*source)
	if !c.paused || c.dropped != nil {
		t.Fatalf("paused %v, dropped by %v, owes %d bytes", c.paused, c.dropped, s.ReplyBytes())
	}
	if n := v.stats.SyncAcks; n != 1<<20/answerSize+1 {
		t.Errorf("%d answers until the reading stops", n)
	}
	if n := v.stats.Requests - before; n > 2 && recycleRequests {
		t.Errorf("%d requests for that", n)
	}
	if st := v.Stats(); st.OwedBytes != s.ReplyBytes() || st.Paused != 1 || ledger.Total(ledger.Owed) < int64(s.ReplyBytes()) {
		t.Errorf("%+v, %d owed in the process", st, ledger.Total(ledger.Owed))
	}
	if p := v.Peers(); len(p) != 1 || p[0].Paused != 1 || p[0].Owed != s.ReplyBytes() {
		t.Errorf("%+v", p)
	}
	lane.room = 1<<20/answerSize/2 - 100
	lane.q.Dispatch()
	if !c.paused {
		t.Error("read again too early")
	}
	lane.room = 1 << 20
	lane.q.Dispatch()
	v.finishDispatched()
	if c.paused || s.ReplyBytes() != 0 || !lane.q.Empty() || len(lane.taken) != int(v.stats.SyncAcks) {
		t.Errorf("paused %v, owes %d bytes, %d of %d answers sent", c.paused, s.ReplyBytes(), len(lane.taken), v.stats.SyncAcks)
	}
	v.syncFlood(c, ep, 10) // sent at once again
	if n := len(lane.taken); n != int(v.stats.SyncAcks) || s.ReplyBytes() != 0 {
		t.Errorf("%d answers sent", n)
	}
	c.Gone()
	if n := v.Stats().Sources; n != 0 {
		t.Errorf("%d sources are left", n)
	}
}

// TestAnswersOfFailed checks that pending answers end with their endpoint and are charged to no
// account.
func TestAnswersOfFailed(t *testing.T) {
	for _, end := range []func(ep *Endpoint){
		func(ep *Endpoint) { ep.fail(ucs.ErrConnectionReset) },
		func(ep *Endpoint) { ep.w.ends.destroy(ep, ucs.ErrCanceled) },
	} {
		v := newServer(t)
		v.accounts.Limits.StopReplies, v.accounts.Limits.DropReplies = 1<<20, account.DropMultiple<<20
		c := from("192.0.2.66")
		ep, _ := v.deaf()
		v.syncFlood(c, ep, 1_000_000)
		c.Gone()
		end(ep)
		if s := v.Stats(); s.OwedBytes != 0 || s.Sources != 0 || ep.charge.answers.count != 0 || ep.charge.answers.head != nil {
			t.Errorf("%+v", s)
		}
	}
}

// TestDebtor: a peer owes far too much, but the worker cannot stop reading from it, or must not
// because it awaits an answer. The connection is dropped; over shared memory the endpoint fails.
func TestDebtor(t *testing.T) {
	needtest.Goroutines(t)
	if testing.Short() {
		t.Skip("connections by the thousand")
	}
	most := uint64(account.DropMultiple<<20/answerSize*9/8 + 2)
	t.Run("waited for", func(t *testing.T) {
		v := newServer(t)
		v.accounts.Limits.StopReplies, v.accounts.Limits.DropReplies = 1<<20, account.DropMultiple<<20
		c := from("192.0.2.66")
		ep, lane := v.deaf()
		lane.room = 1
		if r, err := ep.TagSendSync(9, nil, nil); err != nil || r.Done() {
			t.Fatal(err)
		}
		v.syncFlood(c, ep, 1_000_000)
		if c.pauses != 0 || !errors.Is(c.dropped, ucs.ErrExceedsLimit) || v.stats.SyncAcks > most {
			t.Errorf("paused %d times, dropped by %v after %d answers", c.pauses, c.dropped, v.stats.SyncAcks)
		}
	})
	t.Run("shared memory", func(t *testing.T) {
		v := newServer(t)
		v.accounts.Limits.StopReplies, v.accounts.Limits.DropReplies = 1<<20, account.DropMultiple<<20
		ep, _ := v.deaf()
		m := proto.EagerSyncOnly{Tag: 1, EpID: ep.localID, ReqID: 7}.Append(nil)
		for range 1_000_000 {
			if _, err := v.TagRecv(1, FullMask, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := v.tag.onEagerSyncOnly(nil, m, nil); err != nil {
				t.Fatal(err)
			}
		}
		if !errors.Is(ep.Err(), ucs.ErrExceedsLimit) || v.stats.SyncAcks > most {
			t.Errorf("the endpoint: %v, after %d answers", ep.Err(), v.stats.SyncAcks)
		}
		if s := v.Stats(); s.OwedBytes != 0 {
			t.Errorf("%d bytes are owed", s.OwedBytes)
		}
	})
}

// TestOwedInAll checks that a connection may owe less while the process is owed much, so that the
// total stays bounded for many connections.
func TestOwedInAll(t *testing.T) {
	needtest.Goroutines(t)
	if testing.Short() {
		t.Skip("connections by the thousand")
	}
	v := newServer(t, "MAX_UNEXP_BYTES", "64m")
	var all int64
	for i := range 100 {
		c := ofUser(1000 + i)
		ep, _ := v.deaf()
		v.syncFlood(c, ep, 1_000_000)
		if !c.paused {
			t.Fatalf("connection %d is not stopped: %v", i, c.dropped)
		}
		all += int64(c.User.(*source).ReplyBytes())
	}
	if all > 64<<20 {
		t.Errorf("%d bytes are owed", all)
	}
}

// TestUnreadGets checks that pending get requests of one peer do not keep other peers from being
// answered.
func TestUnreadGets(t *testing.T) {
	v := newServer(t, "MAX_UNEXP_BYTES", "1g")
	mem := v.memory(64, 0)
	hog, honest := ofUser(66), ofUser(1) // both ask over endpoints of the worker to itself
	ep, _ := v.deaf()
	ask := func(c *sited, ep *Endpoint) error {
		m := proto.GetReq{Address: mem.addr, Length: 8, EpID: ep.localID, ReqID: 3}
		return v.rma.onGetReq(&c.Source, m.Append(nil), nil)
	}
	ep.remoteID, ep.needs = 5, 0
	for !hog.paused {
		if err := ask(hog, ep); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.rma.serving; n > account.StopReplies/requestSize+1 {
		t.Errorf("%d answers wait", n)
	}
	for range 100 {
		if err := ask(honest, v.ep); err != nil || honest.dropped != nil {
			t.Fatalf("%v, dropped by %v", err, honest.dropped)
		}
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
	if s := v.Stats(); s.OwedBytes != 0 || v.rma.serving != 0 || hog.paused {
		t.Errorf("%d bytes are owed, %d answers wait, paused %v", s.OwedBytes, v.rma.serving, hog.paused)
	}
}

// TestAnswersGoFirst checks that answers overtake pending sends of the application.
func TestAnswersGoFirst(t *testing.T) {
	v := newServer(t)
	c := from("192.0.2.1")
	ep, lane := v.deaf()
	for range 3 {
		if _, err := ep.TagSend(5, make([]byte, 100), nil); err != nil {
			t.Fatal(err)
		}
	}
	v.syncFlood(c, ep, 2)
	for lane.room = 1; len(lane.taken) < 5; lane.room++ {
		lane.q.Dispatch()
	}
	v.finishDispatched()
	for i, id := range lane.taken {
		if (id == proto.IDEagerSyncAck) != (i < 2) {
			t.Fatalf("in this order: %v", lane.taken)
		}
	}
	lane.room = 1
	lane.q.Dispatch()
	v.finishDispatched()
	if !lane.q.Empty() || ep.charge.answers.drain != nil {
		t.Error("something still waits")
	}
}

// TestAnswerQueue compares the queue with a slice.
func TestAnswerQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q answerQueue
		var model []uint64
		next := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 300).Draw(t, "n") {
					next++
					q.push(answerRecord{req: next})
					model = append(model, next)
				}
			},
			"pop": func(t *rapid.T) {
				for range min(rapid.IntRange(1, 300).Draw(t, "n"), len(model)) {
					if a := q.front(); a.req != model[0] {
						t.Fatalf("%d in front, want %d", a.req, model[0])
					}
					q.pop()
					model = model[1:]
				}
			},
			"unpop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				a := q.front()
				q.pop()
				q.unpop(a)
			},
			"": func(t *rapid.T) {
				if int(q.count) != len(model) || q.count == 0 && q.head != nil {
					t.Fatalf("%d records, want %d", q.count, len(model))
				}
			},
		})
	})
}

// TestFreeRequestsShrink checks that only a limited number of request objects is kept after a peak
// of operations.
func TestFreeRequestsShrink(t *testing.T) {
	if !recycleRequests {
		t.Skip("race builds keep none")
	}
	v := newTarget(t)
	var list []*Request
	for range 2 * maxIdleRequests {
		list = append(list, v.pool.getRequest())
	}
	for _, r := range list {
		v.pool.putRequest(r)
	}
	n := 0
	for ; !v.pool.freeRequests.Empty(); v.pool.freeRequests.Pop() {
		n++
	}
	if n != maxIdleRequests || v.pool.idleRequests != n {
		t.Errorf("%d are kept, counted as %d", n, v.pool.idleRequests)
	}
}
