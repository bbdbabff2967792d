package account

import (
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp/internal/list"
)

// Account is one worker's share of an account of the process (ledger.Account). It covers all
// connections to the worker that come from one address, or from one user of this machine. Messages
// are charged to the field held, without atomic operations. The account of the process is charged
// in advance and in steps, with the bytes in the field high. That number is at least held, unless
// the last message took more than was reserved for it. The limit is checked only when high has to
// grow.
type Account struct {
	t       *Table
	ledger  *ledger.Account
	holders list.Set[Holder]

	held       int // bytes of unexpected messages
	high, low  int // bytes that the ledger is charged with, and value of held that reduces them
	opened     int // endpoints that the peers have opened and the application has not claimed
	replyBytes int // bytes of answers and replies that wait for the transport
	replyHigh  int // bytes of answers and replies that the ledger is charged with
}

// Ledger returns the account of the process that all workers charge for the same source.
func (p *Account) Ledger() *ledger.Account { return p.ledger }

// Held returns the bytes of messages that the account is charged with.
func (p *Account) Held() int { return p.held }

// Opened returns the number of endpoints that the account is charged with.
func (p *Account) Opened() int { return p.opened }

// ReplyBytes returns the bytes of answers and replies that the account is charged with.
func (p *Account) ReplyBytes() int { return p.replyBytes }

// EachOwner calls f with the owner of each holder that is charged to the account.
func (p *Account) EachOwner(f func(Owner)) {
	for m := p.holders.First(); m != nil; m = m.Next() {
		f(m.Value.owner)
	}
}

// remove removes a holder from the account. An account without holders is closed.
func (p *Account) remove(h *Holder) {
	h.member.Remove()
	h.charged = nil
	if p.holders.Empty() {
		p.close()
	}
}

// close returns all charges of the account to the ledger, and removes the account from its table.
func (p *Account) close() {
	p.resize(0)
	p.ledger.Add(ledger.Owed, -int64(p.replyHigh))
	p.ledger.Add(ledger.Endpoints, -int64(p.opened))
	p.replyHigh, p.opened = 0, 0
	p.t.remove(p.ledger)
	p.ledger.Close()
}

// resize sets the bytes that the ledger is charged with for messages of the account.
func (p *Account) resize(high int) {
	p.ledger.Add(ledger.Bytes, int64(high-p.high))
	p.t.reserved += high - p.high
	p.high, p.low = high, high-4*p.t.slack(high)
}

// reserve makes sure that the ledger is charged for n more bytes than the account holds. If there
// is room it also charges bytes in advance (Table.slack). It returns false if the n bytes would
// exceed limit, a limit in bytes for the whole process.
func (p *Account) reserve(n, limit int) bool {
	need := p.held + n - p.high
	if need <= 0 {
		return true
	}
	free := int64(limit) - ledger.Total(ledger.Bytes)
	extra := p.t.slack(p.held + n)
	if int64(need+extra) > free {
		extra = 0
	}
	if int64(need) > free {
		return false
	}
	p.resize(p.high + need + extra)
	return true
}

// amount returns how much of a kind the account is charged with: endpoints or bytes of messages.
func (p *Account) amount(k ledger.Kind) int {
	if k == ledger.Endpoints {
		return p.opened
	}
	return p.held
}

// largest returns the holder with the largest amount of a kind that can be evicted, nil if there is
// none. It does not return holders that were evicted before. These can still be charged for parts
// of messages that came over several connections.
func (p *Account) largest(k ledger.Kind) *Holder {
	var largest *Holder
	for m := p.holders.First(); m != nil; m = m.Next() {
		h := m.Value
		if h != p.t.unnamed && !h.evicted && h.amount(k) > 0 && (largest == nil || h.amount(k) > largest.amount(k)) {
			largest = h
		}
	}
	return largest
}
