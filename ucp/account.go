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

// accountTable holds the accounts that a worker charges with what peers make it hold, and the
// limits that apply to the accounts.
type accountTable struct {
	w        *Worker
	byLedger map[*ledger.Account]*account
	most     int    // the largest number of entries that byLedger has had
	unnamed  source // of transports that do not tell connections apart
	sources  int    // connections for which something is held
	reserved int    // bytes that the accounts of this worker are charged with, the sum of account.high
	maxHeld  int    // limit in bytes of the messages of all accounts of the process

	queuedReplyBytes int // bytes of answers and replies that wait for the transport
	stopReplyBytes   int // bytes of unread replies at which the worker stops reading a connection
	maxReplyBytes    int // bytes of unread replies at which the worker drops a connection

	unbound     int // endpoints of the application whose peers' accounts are not known
	unboundSeen int // value of unbound after the last look at all of them
	nextUnbound int // slot of the endpoint at which the next partial look begins

	offerSource *source     // source of the offer that is being handled
	roomWanted  atomic.Bool // another worker has no room for endpoints
	evicting    bool        // requests end later (Request.finish): a handler up the stack is in the middle of something
}

// account is the view that one worker has of an account of the process (ledger.Account). The
// account covers all connections to the worker that come from one address, or from one user of
// this machine. Messages are charged to held, without atomic operations. The ledger is charged in
// advance and in steps, with high bytes. high is at least held, unless the last message took more
// than was reserved for it. The limit is checked only when high has to grow.
type account struct {
	w       *Worker
	ledger  *ledger.Account
	sources *source // head of a list

	held       int // bytes of unexpected messages
	high, low  int // bytes that the ledger is charged with; when held is below low, some of high is given back
	opened     int // endpoints that the peers have opened and the application has not claimed
	replyBytes int // bytes of answers and replies that wait for the transport
	replyHigh  int // bytes of answers and replies that the ledger is charged with
}

// maxSlack and minSlack bound in bytes what an account is charged with in advance.
const (
	maxSlack = 1 << 20
	minSlack = 64 << 10
)

// slack returns how many bytes an account that holds n bytes may be charged with in advance: an
// eighth of n and at least minSlack, but at most 1/256 of maxHeld and at most maxSlack.
func (at *accountTable) slack(n int) int {
	return min(max(n/8, minSlack), at.maxHeld/256, maxSlack)
}

// accountOf returns the worker's account for a ledger source, and creates the account if there is
// none. The caller has to add a source to a new account.
func (at *accountTable) accountOf(who ledger.Source) *account {
	w := at.w
	a := ledger.Open(who)
	if p := at.byLedger[a]; p != nil {
		a.Close() // p already has the ledger account open
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

// add adds a source to the account, which is charged for the source from now on.
func (p *account) add(s *source) {
	s.charged = p
	link(&p.sources, s, (*source).place)
}

// remove removes a source from the account. An account without sources is closed.
func (p *account) remove(s *source) {
	unlink(&p.sources, s, (*source).place)
	if p.sources == nil {
		p.close()
	}
}

// close gives back all that the account is charged with, and removes the account from its worker.
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

// closeAccounts closes all accounts, at the end of the worker.
func (at *accountTable) closeAccounts() {
	for _, p := range at.byLedger {
		for s := p.sources; s != nil; s = s.next {
			s.detached = true
		}
		p.close()
	}
}

// shrinkFrom is the number of entries above which a map is replaced by a new one once its entries
// are gone.
const shrinkFrom = 1024

// resize sets the charge of the account to high bytes.
func (p *account) resize(high int) {
	p.ledger.Add(ledger.Bytes, int64(high-p.high))
	p.w.accounts.reserved += high - p.high
	p.high, p.low = high, high-4*p.w.accounts.slack(high)
}

// reserve charges the account for n more bytes, and for some in advance if there is room for
// them. It reports whether the n bytes fit in limit, a limit in bytes for the whole process.
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

// held returns the bytes of messages without a receive: buffers of the library, and message
// objects with the memory of transports that they keep.
func (at *accountTable) held() (n int) {
	for _, p := range at.byLedger {
		n += p.held
	}
	return n
}

// trim gives back what the accounts of the worker are charged with in advance.
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

// amount returns how much of a kind the account holds.
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

// largestSource returns the connection that holds most of a kind and can be evicted, nil if there
// is none. A connection that was evicted before can still hold parts of messages of other
// connections; such a connection is not returned.
func (p *account) largestSource(k ledger.Kind) *source {
	var hog *source
	for s := p.sources; s != nil; s = s.next {
		if s != &s.w.accounts.unnamed && !s.evicted && s.amount(k) > 0 && (hog == nil || s.amount(k) > hog.amount(k)) {
			hog = s
		}
	}
	return hog
}

// Which account is evicted when a limit of the process is reached. Accounts are compared, not
// connections: a peer with many connections gets no more than a peer with one.
//
//   - Strangers, which are accounts to which the application has no endpoint, are evicted before
//     known accounts. Known accounts keep what they have as long as strangers hold anything.
//   - Among strangers, and among known accounts when there are no strangers, the offender is the
//     account that holds most. If the offender holds more than the account that asks would hold
//     with what it asks for, the offender's largest connection is evicted.
//   - Otherwise the account that asks is refused, and loses its connection. An account that holds
//     less than an equal share is not refused: the limit is exceeded a little (overshoot), for
//     accounts that would be locked out by what may not be thrown away.
//
// Only the worker that owns a connection can drop the connection. Other workers ask the owner to
// do so, by a flag that the owner checks in its next round of progress.

// autoHeld returns the limit in bytes for UCX_MAX_UNEXP_BYTES=auto: a quarter of the memory of
// the machine, at most maxAutoHeld.
func autoHeld() int {
	if m := topo.Memory() / 4; m > 0 {
		return int(min(m, maxAutoHeld))
	}
	return maxAutoHeld
}

const maxAutoHeld = min(4<<30, math.MaxInt/2)

// overshoot returns by how much a limit may be exceeded.
func overshoot(limit int) int { return limit / 16 }

// charge makes sure that n more bytes from s may be kept for receives that are not posted. When
// the limit of the process is reached, the account that holds most loses its messages and its
// connection. If s itself is refused, charge returns an error, which drops the connection of s.
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

// mayOpen returns an error if s may not open one more endpoint toward the worker.
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

// enforceLimit makes room for n more of a kind that s asks for, or returns the error of the
// refusal.
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
		var hog *source // the connection of this worker that is evicted
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
				hog = nil // the connection that holds most cannot be told
			}
			if hog == nil || 2*int64(theirs.amount(k)) < most { // other workers hold most of it
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
		at.evict(hog, say()) // each connection at most once
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

// logRefusal counts a refusal to a peer, and logs some of the refusals.
func (at *accountTable) logRefusal(who *ledger.Account, reason ledger.Reason, err error) {
	w := at.w
	w.stats.Refused++
	if who.Refuse(reason) {
		w.ctx.log.Warn("refusing a peer's request", zap.String("worker", w.name), zap.Stringer("from", who.Source()), zap.Error(err))
	}
}

// accountOfSource returns the worker's account for a ledger source, nil if there is none.
func (at *accountTable) accountOfSource(who ledger.Source) *account {
	a := ledger.Open(who)
	defer a.Close()
	return at.byLedger[a]
}

// evict drops a connection and frees what the connection made the worker hold.
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

// reclaimAsked does what another worker has asked for: it evicts connections of the accounts that
// hold most until each total of the process is below its limit by overshoot. It stops at an
// account of which this worker has no connection to evict.
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

// bindAccounts finds the accounts of the peers to which the application has made endpoints. It
// runs only when that matters: at a limit, and for Worker.Peers. What it finds is kept.
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

// fewEndpoints is how many endpoints bindAccounts looks at in one call when a look at all of them
// found no account for the rest.
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

// bindAccount records that the application knows a ledger source, by an endpoint that the
// application has made.
func (at *accountTable) bindAccount(ep *Endpoint, who ledger.Source) {
	if b := at.ensureCharge(ep); b.boundTo == nil && ep.life.Stage != life.Gone {
		b.boundTo = ledger.Open(who)
		b.boundTo.Add(ledger.Known, 1)
		ep.w.accounts.unbound--
	}
}

// unbindAccount undoes bindAccount at the end of the endpoint.
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

// What peers make a process hold is limited for all its workers together. A worker that needs
// room asks its siblings, the other workers of the process, to give some back.

// siblings are the workers of the process.
var siblings struct {
	sync.Mutex
	workers map[*Worker]struct{}
}

// joinSiblings adds the worker to those that other workers can ask to give something back.
// leaveSiblings removes the worker.
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

// askSiblings asks the other workers to evict connections of the accounts that hold most
// (reclaimAsked), and returns the number of those workers.
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

// askSiblingsForRoom asks the other workers to close endpoints that use up what a transport has
// run out of.
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
