package account

import (
	"math"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/topo"
)

// Limits are the limits that apply to the accounts of a worker.
type Limits struct {
	Bytes     int // most bytes of unexpected messages of all accounts of the process
	Endpoints int // most endpoints opened by peers, of all accounts of the process

	StopReplies int // bytes of unread replies at which the worker stops reading a connection
	DropReplies int // bytes of unread replies at which the worker drops a connection
}

// Host is the worker of a table.
type Host interface {
	// Bind charges ledger.Known to the accounts of all peers to which the application has
	// endpoints. It is called only at a limit, because only then does it matter which peers are
	// known.
	Bind()

	// Wake makes the worker call Table.Reclaim soon. Any goroutine may call Wake.
	Wake()

	// LogRefusal counts a refusal to a peer, and logs some of the refusals.
	LogRefusal(who *ledger.Account, reason ledger.Reason, err error)
}

// Table holds a worker's accounts of what peers make the worker hold, and the limits that apply to
// them.
type Table struct {
	Limits Limits

	host     Host
	unnamed  *Holder // holder of all peers whose transports cannot tell connections apart
	byLedger map[*ledger.Account]*Account
	most     int // the largest number of entries that byLedger has had
	holders  int // number of holders that are not detached, without the unnamed one
	reserved int // bytes that the accounts of the table are charged with, the sum of Account.high

	replyBytes int // bytes of answers and replies that wait for the transport
	roomWanted atomic.Bool
}

// Open prepares the table for its worker, host. The parameter unnamed is the holder of all peers
// that cannot be told apart, and owner is the owner of this holder.
func (t *Table) Open(host Host, limits Limits, unnamed *Holder, owner Owner) {
	t.host, t.Limits, t.unnamed = host, limits, unnamed
	unnamed.owner = owner
	t.Attach(unnamed, ledger.Shared)
}

// Close closes all accounts when the worker is closed. It returns all charges to the ledger, so
// holders that reduce their charges afterwards no longer affect the process.
func (t *Table) Close() {
	for _, p := range t.byLedger {
		for m := p.holders.First(); m != nil; m = m.Next() {
			m.Value.detached = true
		}
		p.close()
	}
}

// Register adds a holder that is not charged with anything yet.
func (t *Table) Register(h *Holder, owner Owner) {
	h.owner = owner
	t.holders++
}

// Attach makes the account of a source the account of the holder, and returns it. It creates the
// account if there is none.
func (t *Table) Attach(h *Holder, who ledger.Source) *Account {
	p := t.accountOf(who)
	h.charged = p
	h.member.Value = h
	p.holders.Add(&h.member)
	return p
}

// Held returns the bytes of messages without a receive: buffers of the library, and message
// objects with the memory of transports that they keep.
func (t *Table) Held() (n int) {
	for _, p := range t.byLedger {
		n += p.held
	}
	return n
}

// ReplyBytes returns the bytes of answers and replies that wait for the transport.
func (t *Table) ReplyBytes() int { return t.replyBytes }

// Holders returns the number of holders, without the unnamed one.
func (t *Table) Holders() int { return t.holders }

// Len returns the number of accounts.
func (t *Table) Len() int { return len(t.byLedger) }

// Each calls f with each account, in no particular order.
func (t *Table) Each(f func(*Account)) {
	for _, p := range t.byLedger {
		f(p)
	}
}

// maxSlack and minSlack are the bounds in bytes of what an account charges to the ledger in
// advance.
const (
	maxSlack = 1 << 20
	minSlack = 64 << 10
)

// slack returns how many bytes an account that holds n bytes charges to the ledger in advance: an
// eighth of n and at least minSlack, but at most 1/256 of the limit and at most maxSlack.
func (t *Table) slack(n int) int {
	return min(max(n/8, minSlack), t.Limits.Bytes/256, maxSlack)
}

// accountOf returns the table's account for a source, and creates the account if there is none.
// The caller has to add a holder to a new account.
func (t *Table) accountOf(who ledger.Source) *Account {
	a := ledger.Open(who)
	if p := t.byLedger[a]; p != nil {
		a.Close() // p already has the ledger account open
		return p
	}
	if t.byLedger == nil {
		t.byLedger = make(map[*ledger.Account]*Account)
	}
	p := &Account{t: t, ledger: a}
	t.byLedger[a] = p
	t.most = max(t.most, len(t.byLedger))
	return p
}

// find returns the table's account for a source, nil if there is none.
func (t *Table) find(who ledger.Source) *Account {
	a := ledger.Open(who)
	defer a.Close()
	return t.byLedger[a]
}

// shrinkFrom is the number of entries above which the map is replaced by a new one once its
// entries are gone.
const shrinkFrom = 1024

// remove removes a closed account.
func (t *Table) remove(a *ledger.Account) {
	delete(t.byLedger, a)
	if len(t.byLedger) <= 1 && t.most > shrinkFrom { // maps do not shrink
		t.most = 1
		old := t.byLedger
		t.byLedger = nil
		for a, p := range old {
			t.byLedger = map[*ledger.Account]*Account{a: p}
		}
	}
}

// trim returns to the ledger what the accounts of the table have charged in advance.
func (t *Table) trim() {
	if t.reserved <= t.Held() {
		return
	}
	for _, p := range t.byLedger {
		if p.high > p.held {
			p.resize(p.held)
		}
	}
}

// AutoBytes returns the default of Limits.Bytes: a quarter of the memory of the machine, at most
// maxAuto.
func AutoBytes() int {
	if m := topo.Memory() / 4; m > 0 {
		return int(min(m, maxAuto))
	}
	return maxAuto
}

const maxAuto = min(4<<30, math.MaxInt/2)
