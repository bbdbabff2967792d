package ucp

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// accountTable is what peers make a worker hold: the accounts that are charged with it, and the
// limits that they are held to.
type accountTable struct {
	w        *Worker
	byLedger map[*ledger.Account]*account
	most     int    // accounts that there ever were
	unnamed  source // of transports that do not tell connections apart
	sources  int    // connections for which something is held
	reserved int    // bytes that the accounts are charged with for sources
	maxHeld  int    // bytes of messages that the accounts of the process may come to

	queuedReplyBytes int // of answers that wait for their transport
	stopReplyBytes   int // unread replies of a connection at which it is not read any more
	maxReplyBytes    int // unread replies that a connection may have at all

	unbound     int // endpoints of the application whose peers' accounts are not known
	unboundSeen int // value of unbound when all of them were looked at
	nextUnbound int // slot of the endpoint to go on with

	offerSource *source     // of the offer that is being handled
	roomWanted  atomic.Bool // another worker has no room for endpoints
	evicting    bool        // ends are put off: a handler up the stack is in the middle of something
}

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

// maxSlack and minSlack bound what an account is charged with in advance.
const (
	maxSlack = 1 << 20
	minSlack = 64 << 10
)

// slack is what an account that holds n bytes may be charged with in advance: little of
// what it holds, and little of what there is.
func (at *accountTable) slack(n int) int {
	return min(max(n/8, minSlack), at.maxHeld/256, maxSlack)
}

// accountOf returns the account of an account, which the caller has to join.
func (at *accountTable) accountOf(who ledger.Source) *account {
	w := at.w
	a := ledger.Open(who)
	if p := at.byLedger[a]; p != nil {
		a.Close() // p has it open
		return p
	}
	if at.byLedger == nil {
		at.byLedger = make(map[*ledger.Account]*account)
	}
	p := &account{w: w, ledger: a}
	at.byLedger[a] = p
	at.most = max(at.most, len(at.byLedger))
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
	delete(w.accounts.byLedger, p.ledger)
	p.ledger.Close()
	if len(w.accounts.byLedger) <= 1 && w.accounts.most > shrinkFrom { // maps do not shrink
		w.accounts.most = 1
		old := w.accounts.byLedger
		w.accounts.byLedger = nil
		for a, q := range old {
			w.accounts.byLedger = map[*ledger.Account]*account{a: q}
		}
	}
}

// closeAccounts is for the end of the worker.
func (at *accountTable) closeAccounts() {
	for _, p := range at.byLedger {
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
	p.w.accounts.reserved += high - p.high
	p.high, p.low = high, high-4*p.w.accounts.slack(high)
}

// reserve charges the account for n bytes more, and some in advance, if the process
// may hold them.
func (p *account) reserve(n, limit int) bool {
	need := p.held + n - p.high
	if need <= 0 {
		return true
	}
	free := int64(limit) - ledger.Total(ledger.Bytes)
	extra := p.w.accounts.slack(p.held + n)
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
func (at *accountTable) held() (n int) {
	for _, p := range at.byLedger {
		n += p.held
	}
	return n
}

// trim gives back what is charged in advance to any account of the worker.
func (at *accountTable) trim() {
	if at.reserved <= at.held() {
		return
	}
	for _, p := range at.byLedger {
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
		if s != &s.w.accounts.unnamed && !s.evicted && s.amount(k) > 0 && (hog == nil || s.amount(k) > hog.amount(k)) {
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
// than maxAutoHeld.
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
func (at *accountTable) charge(s *source, n int) error {
	if p := s.charged; p != nil && p.held+n <= p.high {
		return nil
	}
	return at.makeRoom(s, n)
}

//go:noinline
func (at *accountTable) makeRoom(s *source, n int) error {
	p := s.account()
	fits := func(limit int) bool { return p.reserve(n, limit) }
	if fits(at.maxHeld) {
		return nil
	}
	at.trim()
	return at.enforceLimit(s, ledger.Bytes, n, at.maxHeld, fits, func() error {
		return fmt.Errorf("ucp: unexpected messages hold %d bytes, %d more exceed UCX_MAX_UNEXP_BYTES=%d: %w",
			ledger.Total(ledger.Bytes), n, at.maxHeld, ucs.ErrExceedsLimit)
	})
}

// mayOpen reports whether s may open one more endpoint toward the worker.
func (at *accountTable) mayOpen(s *source) error {
	w := at.w
	limit := w.ctx.settings.MaxUnexpEps
	fits := func(limit int) bool { return ledger.Total(ledger.Endpoints) < int64(limit) }
	if fits(limit) {
		return nil
	}
	return at.enforceLimit(s, ledger.Endpoints, 1, limit, fits, func() error {
		return fmt.Errorf("ucp: peers have opened %d endpoints, UCX_MAX_UNEXP_EPS=%d: %w",
			ledger.Total(ledger.Endpoints), limit, ucs.ErrExceedsLimit)
	})
}

// enforceLimit makes room for n more of something that s asks for, or refuses it.
func (at *accountTable) enforceLimit(s *source, k ledger.Kind, n, limit int, fits func(limit int) bool, say func() error) error {
	w := at.w
	at.bindAccounts()
	mine := s.account().ledger
	for asked := false; ; {
		if fits(limit) {
			return nil
		}
		who, most, strange := ledger.Greediest(k)
		theirs := at.accountOfSource(who)
		var hog *source // of this worker, that gives way
		switch {
		case who == mine.Source():
			hog = s.account().largestSource(k)
			if hog != nil && (hog.amount(k) <= s.amount(k)+n || hog.amount(k) <= at.unnamed.amount(k) && at.unnamed.charged == s.account()) {
				hog = nil
			}
		case strange && !mine.Stranger() || strange == mine.Stranger() && most > mine.Of(k)+int64(n):
			if theirs != nil {
				hog = theirs.largestSource(k)
			}
			if hog != nil && theirs == at.unnamed.charged && hog.amount(k) <= at.unnamed.amount(k) {
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
		at.evict(hog, say()) // each at most once
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
	at.logRefusal(mine, reason, err)
	return err
}

// logRefusal counts that something was refused to a peer, and logs it now and then.
func (at *accountTable) logRefusal(who *ledger.Account, reason ledger.Reason, err error) {
	w := at.w
	w.stats.Refused++
	if who.Refuse(reason) {
		w.ctx.log.Warn("refusing a peer's request", zap.String("worker", w.name), zap.Stringer("from", who.Source()), zap.Error(err))
	}
}

// accountOfSource returns the account of an account if the worker has one.
func (at *accountTable) accountOfSource(who ledger.Source) *account {
	a := ledger.Open(who)
	defer a.Close()
	return at.byLedger[a]
}

// evict drops a connection and frees what it made the worker hold.
func (at *accountTable) evict(s *source, reason error) {
	w := at.w
	if s.account().ledger.Refuse(ledger.Evicted) {
		w.ctx.log.Warn("dropping the connection that holds the most", zap.String("worker", w.name), zap.Stringer("from", s.account().ledger.Source()),
			zap.Int("bytes", s.held), zap.Int("endpoints", s.opened), zap.Error(reason))
	}
	w.stats.Evicted++
	s.evicted = true
	evicting := at.evicting
	at.evicting = true
	for _, f := range w.families {
		f.evict(s, reason)
	}
	if s.uct != nil {
		s.uct.Drop(reason)
	}
	at.evicting = evicting
	at.trim()
}

// reclaimAsked does what another worker has asked for: the greediest give way until there is
// some room again, as far as they are here.
func (at *accountTable) reclaimAsked() {
	w := at.w
	w.reclaimWanted.Store(false)
	at.trim()
	at.bindAccounts()
	for _, l := range []struct {
		kind  ledger.Kind
		limit int
	}{{ledger.Bytes, at.maxHeld}, {ledger.Endpoints, w.ctx.settings.MaxUnexpEps}} {
		target := int64(l.limit - overshoot(l.limit))
		for ledger.Total(l.kind) > target {
			who, _, _ := ledger.Greediest(l.kind)
			p := at.accountOfSource(who)
			if p == nil {
				break
			}
			hog := p.largestSource(l.kind)
			if hog == nil {
				break
			}
			at.evict(hog, fmt.Errorf("ucp: peers make the process hold too many %s, and another worker needs some: %w", l.kind, ucs.ErrExceedsLimit))
		}
	}
}

// bindAccounts finds out whom the application knows by the endpoints that it has made. It is
// done when it matters, and what was found out is kept.
func (at *accountTable) bindAccounts() {
	w := at.w
	if at.unbound == 0 {
		return
	}
	look := func(ep *Endpoint) {
		if ep.life.Mine() && ep.life.Stage != life.Gone && (ep.charge == nil || ep.charge.boundTo == nil) {
			at.bindToLanes(ep)
		}
	}
	if at.unbound != at.unboundSeen {
		w.endpoints.Each(look)
		at.unboundSeen = at.unbound
		return
	}
	at.nextUnbound = w.endpoints.Some(at.nextUnbound, fewEndpoints, look)
}

// fewEndpoints are looked at each time among those of which nothing was found out.
const fewEndpoints = 64

// bindToLanes looks for the peer's account among the connections of the endpoint.
func (at *accountTable) bindToLanes(ep *Endpoint) {
	for i := range ep.lanes {
		if l, ok := ep.lanes[i].uct.(uct.SourceHolder); ok {
			if src := l.Source(); src != nil {
				at.bindAccount(ep, ledgerSource(src))
				return
			}
		}
	}
}

// bindAccount notes that the application knows a source, by an endpoint that it has made.
func (at *accountTable) bindAccount(ep *Endpoint, who ledger.Source) {
	if b := at.ensureCharge(ep); b.boundTo == nil && ep.life.Stage != life.Gone {
		b.boundTo = ledger.Open(who)
		b.boundTo.Add(ledger.Known, 1)
		ep.w.accounts.unbound--
	}
}

// unbindAccount ends that, with the endpoint.
func (at *accountTable) unbindAccount(ep *Endpoint) {
	switch {
	case !ep.life.Mine():
	case ep.charge == nil || ep.charge.boundTo == nil:
		ep.w.accounts.unbound--
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
func (at *accountTable) joinSiblings() {
	w := at.w
	siblings.Lock()
	defer siblings.Unlock()
	if siblings.workers == nil {
		siblings.workers = make(map[*Worker]struct{})
	}
	siblings.workers[w] = struct{}{}
}

func (at *accountTable) leaveSiblings() {
	w := at.w
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
func (at *accountTable) askSiblingsForRoom() {
	w := at.w
	siblings.Lock()
	for f := range siblings.workers {
		if f != w {
			f.accounts.roomWanted.Store(true)
		}
	}
	siblings.Unlock()
	askSiblings(w)
}
