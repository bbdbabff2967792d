package ucp

import (
	"fmt"
	"math"
	"sync"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// account is an account of the process as one worker sees it: all connections to the
// worker that come from one address, or from one user of this machine. Messages are
// charged here, without atomic operations. The account is charged in advance, in
// steps: with high, which is at least held but for what a last message took more than
// was asked for. Whether there is room is decided when high has to grow.
type account struct {
	w       *Worker
	ledger  *ledger.Account
	sources *source // a list

	held       int // bytes of unexpected messages
	high, low  int // what the account is charged with; below low some is given back
	opened     int // endpoints
	replyBytes int // bytes of answers
	replyHigh  int // of those the account is charged with
}

// maxSlack and leastSlack bound what an account is charged with in advance.
const (
	maxSlack = 1 << 20
	minSlack = 64 << 10
)

// slack is what an account that holds n bytes may be charged with in advance: little of
// what it holds, and little of what there is.
func (w *Worker) slack(n int) int {
	return min(max(n/8, minSlack), w.maxHeld/256, maxSlack)
}

// accountOf returns the account of an account, which the caller has to join.
func (w *Worker) accountOf(who ledger.Source) *account {
	a := ledger.Open(who)
	if p := w.byLedger[a]; p != nil {
		a.Close() // p has it open
		return p
	}
	if w.byLedger == nil {
		w.byLedger = make(map[*ledger.Account]*account)
	}
	p := &account{w: w, ledger: a}
	w.byLedger[a] = p
	w.most = max(w.most, len(w.byLedger))
	return p
}

// add makes p pay for a source.
func (p *account) add(s *source) {
	s.charged = p
	link(&p.sources, s, (*source).place)
}

// remove ends that. An account for nobody is forgotten.
func (p *account) remove(s *source) {
	unlink(&p.sources, s, (*source).place)
	if p.sources == nil {
		p.close()
	}
}

// close gives back everything.
func (p *account) close() {
	w := p.w
	p.resize(0)
	p.ledger.Add(ledger.Owed, -int64(p.replyHigh))
	p.ledger.Add(ledger.Endpoints, -int64(p.opened))
	p.replyHigh, p.opened = 0, 0
	delete(w.byLedger, p.ledger)
	p.ledger.Close()
	if len(w.byLedger) <= 1 && w.most > shrinkFrom { // maps do not shrink
		w.most = 1
		old := w.byLedger
		w.byLedger = nil
		for a, q := range old {
			w.byLedger = map[*ledger.Account]*account{a: q}
		}
	}
}

// closeAccounts is for the end of the worker.
func (w *Worker) closeAccounts() {
	for _, p := range w.byLedger {
		for s := p.sources; s != nil; s = s.next {
			s.detached = true
		}
		p.close()
	}
}

// shrinkFrom is the number of entries from which a table is made anew when they are
// gone.
const shrinkFrom = 1024

// resize charges the account with high bytes.
func (p *account) resize(high int) {
	p.ledger.Add(ledger.Bytes, int64(high-p.high))
	p.w.reserved += high - p.high
	p.high, p.low = high, high-4*p.w.slack(high)
}

// reserve charges the account for n bytes more, and some in advance, if the process
// may hold them.
func (p *account) reserve(n, limit int) bool {
	need := p.held + n - p.high
	if need <= 0 {
		return true
	}
	free := int64(limit) - ledger.Total(ledger.Bytes)
	extra := p.w.slack(p.held + n)
	if int64(need+extra) > free {
		extra = 0
	}
	if int64(need) > free {
		return false
	}
	p.resize(p.high + need + extra)
	return true
}

// held is the memory of messages without a receive: our buffers, and message
// objects with the transports' memory that they keep.
func (w *Worker) held() (n int) {
	for _, p := range w.byLedger {
		n += p.held
	}
	return n
}

// trim gives back what is charged in advance to any account of the worker.
func (w *Worker) trim() {
	if w.reserved <= w.held() {
		return
	}
	for _, p := range w.byLedger {
		if p.high > p.held {
			p.resize(p.held)
			p.low = 0
		}
	}
}

// amount is how much of a kind is held.
func (p *account) amount(k ledger.Kind) int {
	if k == ledger.Endpoints {
		return p.opened
	}
	return p.held
}

func (s *source) amount(k ledger.Kind) int {
	if k == ledger.Endpoints {
		return s.opened
	}
	return s.held
}

// largestSource returns the connection that holds most of a kind, nil if none that can
// give way holds any. One that was evicted can still hold parts of messages of others.
func (p *account) largestSource(k ledger.Kind) *source {
	var hog *source
	for s := p.sources; s != nil; s = s.next {
		if s != &s.w.unnamed && !s.evicted && s.amount(k) > 0 && (hog == nil || s.amount(k) > hog.amount(k)) {
			hog = s
		}
	}
	return hog
}

// Who gives way when a limit of the process is reached. Accounts are compared, not
// connections: somebody with many of them has no more than somebody with one.
//
//   - Strangers, toward whom the application has no endpoint, give way before those
//     that it knows, who keep what they have as long as strangers hold anything.
//   - Among strangers, and when there are none among the others, the account that
//     holds most gives way if it would still hold more than the one that asks; and of
//     its connections the one that holds most.
//   - Otherwise the one that asks is refused, and loses its connection; not if it holds
//     less than an equal share. Then the limit is exceeded a little (overshoot), for
//     those who would be locked out by what may not be thrown away.
//
// Only the worker that has a connection can drop it. Others ask it to, by a flag that
// it looks at in its next round of progress.

// autoHeld is UCX_MAX_UNEXP_BYTES=auto: a quarter of the memory there is, and not more
// than mostAutoHeld.
func autoHeld() int {
	if m := topo.Memory() / 4; m > 0 {
		return int(min(m, maxAutoHeld))
	}
	return maxAutoHeld
}

const maxAutoHeld = min(4<<30, math.MaxInt/2)

// overshoot is by how much a limit may be exceeded.
func overshoot(limit int) int { return limit / 16 }

// charge reports whether n more bytes from s may be kept for receives that are
// not posted. Beyond the limit, which protects the process, who holds most loses its
// messages and its connection: by the error, if it is s.
func (w *Worker) charge(s *source, n int) error {
	if p := s.charged; p != nil && p.held+n <= p.high {
		return nil
	}
	return w.makeRoom(s, n)
}

//go:noinline
func (w *Worker) makeRoom(s *source, n int) error {
	p := s.account()
	fits := func(limit int) bool { return p.reserve(n, limit) }
	if fits(w.maxHeld) {
		return nil
	}
	w.trim()
	return w.enforceLimit(s, ledger.Bytes, n, w.maxHeld, fits, func() error {
		return fmt.Errorf("ucp: unexpected messages hold %d bytes, %d more exceed UCX_MAX_UNEXP_BYTES=%d: %w",
			ledger.Total(ledger.Bytes), n, w.maxHeld, ucs.ErrExceedsLimit)
	})
}

// mayOpen reports whether s may open one more endpoint toward the worker.
func (w *Worker) mayOpen(s *source) error {
	limit := w.ctx.settings.MaxUnexpEps
	fits := func(limit int) bool { return ledger.Total(ledger.Endpoints) < int64(limit) }
	if fits(limit) {
		return nil
	}
	return w.enforceLimit(s, ledger.Endpoints, 1, limit, fits, func() error {
		return fmt.Errorf("ucp: peers have opened %d endpoints, UCX_MAX_UNEXP_EPS=%d: %w",
			ledger.Total(ledger.Endpoints), limit, ucs.ErrExceedsLimit)
	})
}

// enforceLimit makes room for n more of something that s asks for, or refuses it.
func (w *Worker) enforceLimit(s *source, k ledger.Kind, n, limit int, fits func(limit int) bool, say func() error) error {
	w.bindAccounts()
	mine := s.account().ledger
	for asked := false; ; {
		if fits(limit) {
			return nil
		}
		who, most, strange := ledger.Greediest(k)
		theirs := w.accountOfSource(who)
		var hog *source // of this worker, that gives way
		switch {
		case who == mine.Source():
			hog = s.account().largestSource(k)
			if hog != nil && (hog.amount(k) <= s.amount(k)+n || hog.amount(k) <= w.unnamed.amount(k) && w.unnamed.charged == s.account()) {
				hog = nil
			}
		case strange && !mine.Stranger() || strange == mine.Stranger() && most > mine.Of(k)+int64(n):
			if theirs != nil {
				hog = theirs.largestSource(k)
			}
			if hog != nil && theirs == w.unnamed.charged && hog.amount(k) <= w.unnamed.amount(k) {
				hog = nil // who holds most cannot be told
			}
			if hog == nil || 2*int64(theirs.amount(k)) < most { // most of it is with others
				if !asked && askSiblings(w) > 0 {
					asked = true
					if fits(limit + overshoot(limit)) {
						return nil
					}
				}
			}
		}
		if hog == nil {
			break
		}
		w.evict(hog, say()) // each at most once
	}
	if share := int64(limit) / int64(ledger.Number()+1); mine.Source() != ledger.Shared && mine.Of(k)+int64(n) <= share &&
		fits(limit+overshoot(limit)) {
		return nil
	}
	reason := ledger.Memory
	if k == ledger.Endpoints {
		reason = ledger.TooManyEps
	}
	err := say()
	w.logRefusal(mine, reason, err)
	return err
}

// logRefusal counts that something was refused to a peer, and logs it now and then.
func (w *Worker) logRefusal(who *ledger.Account, reason ledger.Reason, err error) {
	w.stats.Refused++
	if who.Refuse(reason) {
		w.ctx.log.Warn("refusing a peer's request", zap.String("worker", w.name), zap.Stringer("from", who.Source()), zap.Error(err))
	}
}

// accountOfSource returns the account of an account if the worker has one.
func (w *Worker) accountOfSource(who ledger.Source) *account {
	a := ledger.Open(who)
	defer a.Close()
	return w.byLedger[a]
}

// evict drops a connection and frees what it made the worker hold.
func (w *Worker) evict(s *source, reason error) {
	if s.account().ledger.Refuse(ledger.Evicted) {
		w.ctx.log.Warn("dropping the connection that holds the most", zap.String("worker", w.name), zap.Stringer("from", s.account().ledger.Source()),
			zap.Int("bytes", s.held), zap.Int("endpoints", s.opened), zap.Error(reason))
	}
	w.stats.Evicted++
	s.evicted = true
	evicting := w.evicting
	w.evicting = true
	for _, f := range w.families {
		f.evict(s, reason)
	}
	if s.uct != nil {
		s.uct.Drop(reason)
	}
	w.evicting = evicting
	w.trim()
}

// reclaimAsked does what another worker has asked for: the greediest give way until there is
// some room again, as far as they are here.
func (w *Worker) reclaimAsked() {
	w.reclaimWanted.Store(false)
	w.trim()
	w.bindAccounts()
	for _, l := range []struct {
		kind  ledger.Kind
		limit int
	}{{ledger.Bytes, w.maxHeld}, {ledger.Endpoints, w.ctx.settings.MaxUnexpEps}} {
		target := int64(l.limit - overshoot(l.limit))
		for ledger.Total(l.kind) > target {
			who, _, _ := ledger.Greediest(l.kind)
			p := w.accountOfSource(who)
			if p == nil {
				break
			}
			hog := p.largestSource(l.kind)
			if hog == nil {
				break
			}
			w.evict(hog, fmt.Errorf("ucp: peers make the process hold too many %s, and another worker needs some: %w", l.kind, ucs.ErrExceedsLimit))
		}
	}
}

// bindAccounts finds out whom the application knows by the endpoints that it has made. It is
// done when it matters, and what was found out is kept.
func (w *Worker) bindAccounts() {
	if w.unbound == 0 {
		return
	}
	look := func(ep *Endpoint) {
		if ep.life.Mine() && ep.life.Stage != life.Gone && (ep.charge == nil || ep.charge.boundTo == nil) {
			ep.bindToLanes()
		}
	}
	if w.unbound != w.unboundSeen {
		w.endpoints.Each(look)
		w.unboundSeen = w.unbound
		return
	}
	w.nextUnbound = w.endpoints.Some(w.nextUnbound, fewEndpoints, look)
}

// fewEndpoints are looked at each time among those of which nothing was found out.
const fewEndpoints = 64

// bindToLanes looks for the peer's account among the connections of the endpoint.
func (ep *Endpoint) bindToLanes() {
	for i := range ep.lanes {
		if l, ok := ep.lanes[i].uct.(uct.SourceHolder); ok {
			if src := l.Source(); src != nil {
				ep.bindAccount(ledgerSource(src))
				return
			}
		}
	}
}

// bindAccount notes that the application knows a source, by an endpoint that it has made.
func (ep *Endpoint) bindAccount(who ledger.Source) {
	if b := ep.ensureCharge(); b.boundTo == nil && ep.life.Stage != life.Gone {
		b.boundTo = ledger.Open(who)
		b.boundTo.Add(ledger.Known, 1)
		ep.w.unbound--
	}
}

// unbindAccount ends that, with the endpoint.
func (ep *Endpoint) unbindAccount() {
	switch {
	case !ep.life.Mine():
	case ep.charge == nil || ep.charge.boundTo == nil:
		ep.w.unbound--
	default:
		ep.charge.boundTo.Add(ledger.Known, -1)
		ep.charge.boundTo.Close()
		ep.charge.boundTo = nil
	}
}

// What peers make a process hold is limited for all its workers together. A worker that
// needs what another one could give back asks for it.

// siblings are the workers of the process.
var siblings struct {
	sync.Mutex
	workers map[*Worker]struct{}
}

// joinSiblings makes a worker one that others can ask to give something back; resign ends
// that.
func (w *Worker) joinSiblings() {
	siblings.Lock()
	defer siblings.Unlock()
	if siblings.workers == nil {
		siblings.workers = make(map[*Worker]struct{})
	}
	siblings.workers[w] = struct{}{}
}

func (w *Worker) leaveSiblings() {
	siblings.Lock()
	delete(siblings.workers, w)
	siblings.Unlock()
}

// askSiblings asks the other workers to throw away what those hold who have to give
// way, and returns their number.
func askSiblings(w *Worker) int {
	siblings.Lock()
	defer siblings.Unlock()
	n := 0
	for f := range siblings.workers {
		if f == w {
			continue
		}
		n++
		if !f.reclaimWanted.Swap(true) {
			f.wake.signal()
		}
	}
	return n
}

// askSiblingsForRoom asks the other workers to close endpoints that take what a transport has
// no more of.
func (w *Worker) askSiblingsForRoom() {
	siblings.Lock()
	for f := range siblings.workers {
		if f != w {
			f.roomWanted.Store(true)
		}
	}
	siblings.Unlock()
	askSiblings(w)
}
