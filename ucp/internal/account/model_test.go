package account

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// The model is several workers of one process, their connections, and plain sums of what each
// connection has brought. After every step the accounts of all workers and the ledger of the
// process must agree with the sums, and every eviction must follow the policy.

// process models the workers of a process and the sources that its application knows.
type process struct {
	test
	workers []*worker
	known   map[ledger.Source]*ledger.Account // charged by Bind
	unbound []ledger.Source                   // known, and not charged yet
	request request                           // the request that may evict
	count   counts
}

// test has the methods that *testing.T and *rapid.T share.
type test interface {
	Errorf(format string, args ...any)
}

// newProcess returns a process without workers.
func newProcess(t test) *process {
	return &process{test: t, known: make(map[ledger.Source]*ledger.Account)}
}

// request is a charge that a connection asks for.
type request struct {
	from *connection // nil for Reclaim
	kind ledger.Kind
	n    int
}

// counts count the events that the test must reach.
type counts struct {
	evicted, known, refused, over, woken, reclaimed, paused, dropped, late int
}

// worker implements Host.
type worker struct {
	Table
	p       *process
	unnamed *connection
	conns   []*connection
	woken   bool
	closed  bool
}

func (w *worker) Bind() {
	for _, s := range w.p.unbound {
		a := ledger.Open(s)
		a.Add(ledger.Known, 1)
		w.p.known[s] = a
	}
	w.p.unbound = nil
}

func (w *worker) Wake() {
	w.woken = true
	w.p.count.woken++
}

func (w *worker) LogRefusal(who *ledger.Account, reason ledger.Reason, err error) {
	if !errors.Is(err, ucs.ErrExceedsLimit) || who != w.p.request.from.Account().Ledger() {
		w.p.Errorf("%v is refused: %v, %v", who.Source(), reason, err)
	}
	w.p.count.refused++
}

// connection implements Owner. It keeps the sums that its Holder must have.
type connection struct {
	Holder
	w         *worker
	source    ledger.Source
	bytes     int
	endpoints int
	replies   int
	sticky    int  // bytes that an eviction cannot give back
	pausable  bool // the transport can stop reading it
	over      bool
	evictions int
}

func (c *connection) FindAccount() *Account {
	if c.over {
		return c.w.unnamed.Account()
	}
	return c.w.Attach(&c.Holder, c.source)
}

func (c *connection) ReadOn() {
	if c.over || c.Paused() {
		c.w.p.Errorf("read on: over %v, paused %v", c.over, c.Paused())
	}
}

// Evict checks the policy and gives back everything but the sticky bytes.
func (c *connection) Evict(reason error) {
	p := c.w.p
	c.evictions++
	if c == c.w.unnamed || c.evictions > 1 || !errors.Is(reason, ucs.ErrExceedsLimit) {
		p.Errorf("evicted %d times, unnamed %v: %v", c.evictions, c == c.w.unnamed, reason)
	}
	p.checkOffender(c)
	p.count.evicted++
	c.give(c.bytes - min(c.bytes, c.sticky))
	for c.endpoints > 0 {
		c.closeEndpoint()
	}
	c.read(c.replies)
	c.end()
}

// checkOffender checks that the account of an evicted connection is the one that must lose.
func (p *process) checkOffender(c *connection) {
	a, r := c.Account().Ledger(), p.request
	if r.from == nil && ledger.Total(ledger.Bytes) <= int64(c.w.Limits.Bytes-overshoot(c.w.Limits.Bytes)) {
		r.kind = ledger.Endpoints // Reclaim begins with the bytes
	}
	if !a.IsUnknown() {
		p.count.known++
	}
	for _, o := range ledger.Accounts() {
		n := o.Amounts[r.kind]
		stranger := o.Source != ledger.Shared && o.Amounts[ledger.Known] <= 0
		switch {
		case stranger && !a.IsUnknown() && n > 0:
			p.Errorf("%v is evicted, and %v, a stranger, has %d %v", a.Source(), o.Source, n, r.kind)
		case stranger == a.IsUnknown() && n > a.Of(r.kind):
			p.Errorf("%v is evicted with %d %v, and %v has %d", a.Source(), a.Of(r.kind), r.kind, o.Source, n)
		}
	}
	if r.from == nil {
		return
	}
	mine := r.from.Account().Ledger()
	switch {
	case r.kind == ledger.Bytes && c.w.reserved > c.w.Held():
		p.Errorf("%v is evicted, and the worker has charged %d bytes in advance", a.Source(), c.w.reserved-c.w.Held())
	case mine == a:
		if c == r.from || c.amount(r.kind) <= r.from.amount(r.kind)+r.n {
			p.Errorf("a connection is evicted for a larger one of the same account")
		}
	case mine.IsUnknown() && !a.IsUnknown(), mine.IsUnknown() == a.IsUnknown() && a.Of(r.kind) <= mine.Of(r.kind)+int64(r.n):
		p.Errorf("%v, with %d %v, is evicted for %v", a.Source(), a.Of(r.kind), r.kind, mine.Source())
	}
}

// end ends a connection. What it has brought stays.
func (c *connection) end() {
	if c == c.w.unnamed || c.over {
		return
	}
	c.over = true
	c.SetEnded()
	c.Settle()
}

// message charges a message of n bytes.
func (c *connection) message(n int) {
	p := c.w.p
	p.request = request{c, ledger.Bytes, n}
	limit, before := c.w.Limits.Bytes, ledger.Total(ledger.Bytes)
	if err := c.Charge(n); err != nil {
		if before+int64(n) <= int64(limit) {
			p.Errorf("%d bytes are refused: %v", n, err)
		}
		c.end()
		return
	}
	if c.over {
		p.count.late++
	}
	c.AddBytes(n)
	c.bytes += n
	p.checkLimit(ledger.Bytes, limit)
}

func (c *connection) give(n int) {
	c.bytes -= n
	c.SubBytes(n)
}

// open charges an endpoint.
func (c *connection) open() {
	p := c.w.p
	p.request = request{c, ledger.Endpoints, 1}
	limit, before := c.w.Limits.Endpoints, ledger.Total(ledger.Endpoints)
	if err := c.MayOpen(); err != nil {
		if before < int64(limit) {
			p.Errorf("one of %d endpoints is refused: %v", before+1, err)
		}
		c.end()
		return
	}
	c.AddEndpoint()
	c.endpoints++
	p.checkLimit(ledger.Endpoints, limit)
}

func (c *connection) closeEndpoint() {
	c.endpoints--
	c.SubEndpoint()
}

// reply charges a reply of n bytes. asks means that a message of the peer ends the reply, which the
// model lets happen at once.
func (c *connection) reply(n int, asks bool) {
	p := c.w.p
	if asks {
		c.AwaitingPeerBytes += n
	}
	c.AddReplies(n)
	c.replies += n
	if asks {
		defer func() {
			c.AwaitingPeerBytes -= n
			c.read(min(n, c.replies))
		}()
	}
	if c.over || c == c.w.unnamed {
		return
	}
	stop, _ := c.ReplyLimits()
	drop := c.w.Limits.DropReplies
	switch must := c.MustStop(); {
	case must && c.Unprompted() <= stop:
		p.Errorf("a connection that owes %d of %d bytes is stopped", c.Unprompted(), stop)
	case must && c.pausable && !c.Paused():
		c.SetPaused()
		p.count.paused++
	case must && c.OverLimit():
		p.count.dropped++
		c.end()
	case !c.Paused() && c.replies > drop+drop/32+n:
		p.Errorf("a connection that owes %d of %d bytes is not dropped", c.replies, drop)
	}
}

// read records that the peer has read n bytes of replies.
func (c *connection) read(n int) {
	c.replies -= n
	c.SubReplies(n)
}

// progress does what a sibling has asked the worker to do.
func (w *worker) progress() {
	if !w.woken {
		return
	}
	w.woken = false
	w.p.request = request{}
	before := w.p.count.evicted
	w.Reclaim()
	w.p.count.reclaimed += w.p.count.evicted - before
	for k, limit := range map[ledger.Kind]int{ledger.Bytes: w.Limits.Bytes, ledger.Endpoints: w.Limits.Endpoints} {
		who, _, _ := ledger.Greediest(k)
		if a := w.find(who); ledger.Total(k) > int64(limit-overshoot(limit)) && a != nil && a.largest(k) != nil {
			w.p.Errorf("%d %v are left, and a holder of %v", ledger.Total(k), k, who)
		}
	}
}

// close closes the worker. What its connections give back afterwards changes nothing.
func (w *worker) close() {
	w.closed = true
	w.Leave()
	w.Table.Close()
	totals := func() (n [ledger.NumKinds]int64) {
		for k := range n {
			n[k] = ledger.Total(ledger.Kind(k))
		}
		return n
	}
	before := totals()
	for _, c := range w.conns {
		c.give(c.bytes)
		c.read(c.replies)
		c.end()
	}
	if after := totals(); after != before {
		w.p.Errorf("a closed worker has changed %v to %v", before, after)
	}
}

// checkLimit checks that a limit is exceeded by overshoot at most.
func (p *process) checkLimit(k ledger.Kind, limit int) {
	n := int(ledger.Total(k))
	if n > limit {
		p.count.over++
	}
	if n > limit+max(overshoot(limit), 0) {
		p.Errorf("%d %v, with a limit of %d", n, k, limit)
	}
}

// check compares the accounts with the sums.
func (p *process) check() {
	var all [ledger.NumKinds]int64
	sums := make(map[ledger.Source]*[ledger.NumKinds]int64)
	for _, w := range p.workers {
		if w.closed {
			continue
		}
		want := make(map[*Account]*Account)
		bytes, replies, holders := 0, 0, 0
		for _, c := range w.conns {
			if c.Held() != c.bytes || c.Opened() != c.endpoints || c.ReplyBytes() != c.replies {
				p.Errorf("%v holds %d bytes, %d endpoints, %d bytes of replies, want %d, %d, %d", c.source,
					c.Held(), c.Opened(), c.ReplyBytes(), c.bytes, c.endpoints, c.replies)
			}
			bytes, replies = bytes+c.bytes, replies+c.replies
			if c != w.unnamed && !c.Detached() {
				holders++
			}
			if gone := c.over && c.bytes == 0 && c.endpoints == 0 && c.replies == 0; gone && !c.Detached() {
				p.Errorf("a connection that is over and holds nothing is not detached")
			}
			if c.charged == nil && c.bytes == 0 && c.endpoints == 0 && c.replies == 0 {
				continue
			}
			a := c.Account()
			if want[a] == nil {
				want[a] = new(Account)
			}
			want[a].held += c.bytes
			want[a].opened += c.endpoints
			want[a].replyBytes += c.replies
		}
		if w.Held() != bytes || w.ReplyBytes() != replies || w.Holders() != holders || w.Len() != len(want) {
			p.Errorf("%d bytes, %d of replies, %d holders, %d accounts, want %d, %d, %d, %d",
				w.Held(), w.ReplyBytes(), w.Holders(), w.Len(), bytes, replies, holders, len(want))
		}
		w.Each(func(a *Account) {
			if b := want[a]; b == nil || b.held != a.held || b.opened != a.opened || b.replyBytes != a.replyBytes {
				p.Errorf("account %v: %+v, want %+v", a.Ledger().Source(), a, b)
			}
			if spare := a.high - a.held; spare < 0 || spare > 4*w.slack(a.high) {
				p.Errorf("an account that holds %d bytes is charged with %d", a.held, a.high)
			}
			if spare := a.replyHigh - a.replyBytes; spare < 0 || spare > 4*replyStep {
				p.Errorf("an account that owes %d bytes is charged with %d", a.replyBytes, a.replyHigh)
			}
			s := a.Ledger().Source()
			if sums[s] == nil {
				sums[s] = new([ledger.NumKinds]int64)
			}
			for k, n := range map[ledger.Kind]int{ledger.Bytes: a.high, ledger.Owed: a.replyHigh, ledger.Endpoints: a.opened} {
				sums[s][k] += int64(n)
				all[k] += int64(n)
			}
		})
	}
	for _, a := range ledger.Accounts() {
		want := sums[a.Source]
		if want == nil {
			want = new([ledger.NumKinds]int64)
		}
		if p.known[a.Source] != nil {
			want[ledger.Known] = 1
			all[ledger.Known]++
		}
		if a.Amounts != *want {
			p.Errorf("the ledger has %v of %v, want %v", a.Amounts, a.Source, *want)
		}
	}
	for k, n := range all {
		if total := ledger.Total(ledger.Kind(k)); total != n {
			p.Errorf("%d %v in the process, want %d", total, ledger.Kind(k), n)
		}
	}
}

// peers are the sources of the model.
var peers = []ledger.Source{
	address(1), address(2), address(3), ledger.SourceOf(netip.Addr{}, 1000), ledger.SourceOf(netip.Addr{}, 1001), ledger.Shared,
}

func address(n byte) ledger.Source {
	return ledger.SourceOf(netip.AddrFrom4([4]byte{192, 0, 2, n}), -1)
}

// newWorker adds a worker to the process.
func (p *process) newWorker(limits Limits) *worker {
	w := &worker{p: p}
	w.unnamed = &connection{w: w, source: ledger.Shared}
	w.conns = []*connection{w.unnamed}
	w.Open(w, limits, &w.unnamed.Holder, w.unnamed)
	w.Join()
	p.workers = append(p.workers, w)
	return w
}

// connect adds a connection.
func (w *worker) connect(from ledger.Source) *connection {
	c := &connection{w: w, source: from}
	w.Register(&c.Holder, c)
	w.conns = append(w.conns, c)
	return c
}

// know makes the application know a source, and forget ends that.
func (p *process) know(s ledger.Source) {
	if p.known[s] == nil && !slices.Contains(p.unbound, s) {
		p.unbound = append(p.unbound, s)
	}
}

func (p *process) forget(s ledger.Source) {
	p.unbound = slices.DeleteFunc(p.unbound, func(o ledger.Source) bool { return o == s })
	if a := p.known[s]; a != nil {
		a.Add(ledger.Known, -1)
		a.Close()
		delete(p.known, s)
	}
}

// end closes all workers. The process is then charged with nothing.
func (p *process) end() {
	for _, w := range p.workers {
		if !w.closed {
			w.close()
		}
	}
	for _, s := range peers {
		p.forget(s)
	}
	for k := range ledger.NumKinds {
		if n := ledger.Total(k); n != 0 {
			p.Errorf("%d %v are left", n, k)
		}
	}
	if n := ledger.OpenAccounts(); n != 0 {
		p.Errorf("%d accounts are left", n)
	}
}

// TestModel performs random actions with the connections of three workers and checks the accounts
// after each.
func TestModel(t *testing.T) {
	var sum counts
	check := func(t *rapid.T) {
		p := newProcess(t)
		defer p.end()
		limits := Limits{Bytes: 64 << 10, Endpoints: 32, StopReplies: 1 << 20, DropReplies: 2 << 20}
		if rapid.Bool().Draw(t, "much memory") {
			limits.Bytes = 64 << 20 // then replies are limited by their own limits, not by the lower ones
		}
		for range 3 {
			p.newWorker(limits)
		}
		for range 300 {
			p.step(t)
			p.check()
		}
		for _, f := range []struct {
			sum *int
			n   int
		}{
			{&sum.evicted, p.count.evicted}, {&sum.known, p.count.known}, {&sum.refused, p.count.refused}, {&sum.over, p.count.over},
			{&sum.woken, p.count.woken}, {&sum.reclaimed, p.count.reclaimed}, {&sum.paused, p.count.paused},
			{&sum.dropped, p.count.dropped}, {&sum.late, p.count.late},
		} {
			*f.sum += f.n
		}
	}
	// What happens is random, and rare for some kinds.
	complete := func() bool {
		return sum.evicted > 0 && sum.known > 0 && sum.refused > 0 && sum.over > 0 && sum.woken > 0 && sum.reclaimed > 0 &&
			sum.paused > 0 && sum.dropped > 0 && sum.late > 0
	}
	for round := 0; round == 0 || round < 30 && !complete() && !t.Failed(); round++ {
		rapid.Check(t, check)
	}
	t.Logf("%+v", sum)
	if !complete() {
		t.Errorf("something never happened, so the test does not test it: %+v", sum)
	}
}

// step performs one random action.
func (p *process) step(t *rapid.T) {
	var open []*worker
	for _, w := range p.workers {
		if !w.closed {
			open = append(open, w)
		}
	}
	w := open[rapid.IntRange(0, len(open)-1).Draw(t, "worker")]
	c := w.conns[rapid.IntRange(0, len(w.conns)-1).Draw(t, "connection")]
	n := []int{0, 1, 100, 800, 1000, 1024}[rapid.IntRange(0, 5).Draw(t, "size")]
	switch action := rapid.IntRange(0, 20).Draw(t, "action"); action {
	case 0, 1, 2:
		c := w.connect(peers[rapid.IntRange(0, len(peers)-1).Draw(t, "source")])
		c.pausable, c.sticky = n > 100, n/8
	case 3, 4, 5, 6, 7:
		c.message(8 * n)
	case 8:
		c.give(min(c.bytes, 8*n))
	case 9, 10:
		if !c.over {
			c.open()
		}
	case 11:
		if c.endpoints > 0 {
			c.closeEndpoint()
		}
	case 12, 13, 14:
		c.reply(2048*n, n == 100)
	case 15:
		c.read(min(c.replies, 2048*n))
	case 16:
		c.end()
	case 17:
		p.know(peers[rapid.IntRange(0, 4).Draw(t, "source")])
	case 18:
		p.forget(peers[rapid.IntRange(0, 4).Draw(t, "source")])
	case 19:
		w.progress()
	case 20:
		if len(open) > 1 && n == 1 {
			w.close()
		}
	default:
		panic(fmt.Sprint(action))
	}
}
