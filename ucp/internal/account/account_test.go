package account

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// inProcess runs a test with a process that must have no charges at the end.
func inProcess(t *testing.T, f func(p *process)) {
	t.Helper()
	p := newProcess(t)
	f(p)
	p.check()
	p.end()
}

var testLimits = Limits{Bytes: 1 << 20, Endpoints: 100, StopReplies: StopReplies, DropReplies: DropMultiple * StopReplies}

// TestStrangersFirst checks that a known account keeps what it has although an unknown account
// holds more than any other, and that the unknown account is evicted to make room.
func TestStrangersFirst(t *testing.T) {
	inProcess(t, func(p *process) {
		w := p.newWorker(testLimits)
		known, stranger := w.connect(peers[0]), w.connect(peers[1])
		p.know(peers[0])
		for range 70 {
			known.message(10_000)
		}
		for range 100 {
			stranger.message(5000)
		}
		if known.over || known.bytes != 700_000 || !stranger.over {
			t.Fatalf("known: over %v, %d bytes; stranger: over %v, %d bytes", known.over, known.bytes, stranger.over, stranger.bytes)
		}
		for range 30 {
			known.message(10_000)
		}
		if known.over || known.bytes != 1_000_000 || p.count.known != 0 {
			t.Errorf("known: over %v, %d bytes, evicted %d times", known.over, known.bytes, p.count.known)
		}
	})
}

// TestShareBeyondLimit: an account that holds less than its share is served beyond the limit when
// nothing can be evicted for it, and only as far as the overshoot goes.
func TestShareBeyondLimit(t *testing.T) {
	inProcess(t, func(p *process) {
		w := p.newWorker(testLimits)
		greedy, modest := w.connect(peers[0]), w.connect(peers[1])
		p.know(peers[0])
		for !greedy.over {
			greedy.message(10_000)
		}
		held := greedy.bytes
		modest.message(10_000)
		if modest.over || greedy.bytes != held || int(ledger.Total(ledger.Bytes)) <= testLimits.Bytes-10_000 {
			t.Errorf("modest: over %v; greedy has %d of %d bytes left", modest.over, greedy.bytes, held)
		}
		for range 100 {
			modest.message(10_000)
		}
		if !modest.over {
			t.Error("the limit is exceeded without end")
		}
	})
}

// TestUnnamedStays: at the limit, messages whose peer cannot be distinguished are refused, and what
// such peers hold is not evicted.
func TestUnnamedStays(t *testing.T) {
	inProcess(t, func(p *process) {
		w := p.newWorker(testLimits)
		for p.count.refused == 0 {
			w.unnamed.message(10_000)
		}
		held := w.unnamed.bytes
		w.connect(ledger.Shared).message(100_000)
		if w.unnamed.bytes != held || p.count.evicted != 0 || p.count.refused != 2 {
			t.Errorf("%d of %d bytes are left, %d evicted, %d refused", w.unnamed.bytes, held, p.count.evicted, p.count.refused)
		}
		if err := w.unnamed.Charge(100_000); !errors.Is(err, ucs.ErrExceedsLimit) || w.unnamed.TryCharge(100_000) || !w.unnamed.TryCharge(1) {
			t.Error(err)
		}
	})
}

// TestSiblingReclaims: a worker that does not have the offender's connections is served, and the
// worker that has them evicts when it is woken.
func TestSiblingReclaims(t *testing.T) {
	inProcess(t, func(p *process) {
		w, other := p.newWorker(testLimits), p.newWorker(testLimits)
		hog, honest := w.connect(peers[0]), other.connect(peers[1])
		for hog.bytes < 1_040_000 {
			hog.message(10_000)
		}
		honest.message(20_000)
		if honest.over || hog.over || !w.woken || other.woken {
			t.Fatalf("over %v and %v, woken %v and %v", honest.over, hog.over, w.woken, other.woken)
		}
		w.progress()
		if !hog.over || hog.bytes != 0 || honest.bytes != 20_000 {
			t.Errorf("over %v, %d bytes are left, %d of the other", hog.over, hog.bytes, honest.bytes)
		}
	})
}

// TestTrimmedShrinks: an account that was at the limit and then shrinks keeps nothing of another
// worker's room.
func TestTrimmedShrinks(t *testing.T) {
	inProcess(t, func(p *process) {
		w, other := p.newWorker(testLimits), p.newWorker(testLimits)
		a, b := w.connect(peers[0]), other.connect(peers[1])
		p.know(peers[0])
		p.know(peers[1])
		for a.bytes < 1_040_000 {
			a.message(10_000)
		}
		w.trim()
		for a.bytes > 0 {
			a.give(10_000)
			p.check()
		}
		if n := int(ledger.Total(ledger.Bytes)); n > 4*w.slack(0) {
			t.Errorf("the process is charged with %d bytes and holds none", n)
		}
		for b.bytes < 1_000_000 && !b.over {
			b.message(10_000)
		}
		if b.over || w.woken || p.count.evicted > 0 {
			t.Errorf("over %v, woken %v, %d evicted", b.over, w.woken, p.count.evicted)
		}
	})
}

// TestAskForRoom checks that all open tables but the one that asks are notified, once.
func TestAskForRoom(t *testing.T) {
	inProcess(t, func(p *process) {
		a, b, c := p.newWorker(testLimits), p.newWorker(testLimits), p.newWorker(testLimits)
		c.close()
		a.AskForRoom()
		if a.woken || a.RoomWanted() || !b.woken || !b.RoomWanted() || b.RoomWanted() || c.woken || c.RoomWanted() {
			t.Errorf("woken: %v, %v, %v", a.woken, b.woken, c.woken)
		}
	})
}

// TestReplyLimits checks that the limits of a connection are lower while its account owes much.
func TestReplyLimits(t *testing.T) {
	inProcess(t, func(p *process) {
		limits := testLimits
		limits.Bytes = 64 << 20
		w := p.newWorker(limits)
		c := w.connect(peers[0])
		c.reply(1<<20, false)
		if stop, drop := c.ReplyLimits(); stop != limits.StopReplies || drop != limits.DropReplies || c.MustStop() {
			t.Errorf("limits of %d and %d bytes", stop, drop)
		}
		other := w.connect(peers[0])
		other.reply(3<<20, false)
		if stop, drop := c.ReplyLimits(); stop != MinStopReplies || drop != DropMultiple*MinStopReplies || !c.MustStop() {
			t.Errorf("limits of %d and %d bytes where the account owes much", stop, drop)
		}
		if c.OverLimit() || c.MustStop() {
			t.Error("it is looked at again at once")
		}
		c.reply(c.replies/16, false)
		if !c.over {
			t.Error("a connection beyond the higher limit stays")
		}
	})
}

// TestPause checks that a connection is read again when half of the replies that stopped it have
// left. Replies that end with a message of the peer do not count.
func TestPause(t *testing.T) {
	inProcess(t, func(p *process) {
		w := p.newWorker(testLimits)
		c := w.connect(peers[0])
		c.AwaitingPeerBytes = 100
		c.AddReplies(1100)
		c.replies = 1100
		c.SetPaused()
		c.read(499)
		if !c.Paused() {
			t.Error("read too soon")
		}
		if c.read(1); c.Paused() {
			t.Errorf("still paused with %d bytes of 1000", c.Unprompted())
		}
		c.AwaitingPeerBytes = 0
	})
}

// TestAccountsComeAndGo checks that nothing is kept of accounts that come and go, nor room for
// them.
func TestAccountsComeAndGo(t *testing.T) {
	inProcess(t, func(p *process) {
		w := p.newWorker(testLimits)
		for n := range 2 * shrinkFrom {
			c := w.connect(ledger.SourceOf(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), -1))
			c.message(1)
		}
		if w.Len() != 2*shrinkFrom+1 || w.most != w.Len() {
			t.Fatalf("%d accounts", w.Len())
		}
		for _, c := range w.conns {
			c.end()
			c.give(c.bytes)
		}
		if w.Len() != 1 || w.most != 1 || w.Holders() != 0 || w.find(ledger.Shared) != w.unnamed.charged {
			t.Errorf("%d accounts, at most %d, %d holders", w.Len(), w.most, w.Holders())
		}
	})
}

// TestAutoBytes checks that the default limit fits the memory of the machine.
func TestAutoBytes(t *testing.T) {
	if n := AutoBytes(); n > maxAuto || n < 1<<20 {
		t.Errorf("%d bytes", n)
	}
}

// TestChargeAllocates checks that charges and returns within what is charged in advance allocate
// nothing.
func TestChargeAllocates(t *testing.T) {
	inProcess(t, func(p *process) {
		c := p.newWorker(testLimits).connect(peers[0])
		c.message(10)
		n := testing.AllocsPerRun(100, func() {
			if err := c.Charge(100); err != nil {
				t.Error(err)
			}
			c.AddBytes(100)
			c.SubBytes(100)
			c.AddReplies(100)
			c.SubReplies(100)
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// BenchmarkCharge measures what it costs to charge a message that is kept.
func BenchmarkCharge(b *testing.B) {
	p := newProcess(b)
	defer p.end()
	c := p.newWorker(testLimits).connect(peers[0])
	c.message(10)
	for b.Loop() {
		if c.Charge(100) == nil {
			c.AddBytes(100)
			c.SubBytes(100)
		}
	}
}
