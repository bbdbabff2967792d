package account

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// overshoot returns by how much a limit may be exceeded (Table.enforce).
func overshoot(limit int) int { return limit / 16 }

// Charge makes room for n more bytes of messages without a posted receive; the caller then calls
// Take. When the limit of the process is reached, Charge evicts the largest holder of the account
// that holds most. If the request itself is refused, Charge returns an error, with which the
// transport drops the connection.
func (h *Holder) Charge(n int) error {
	if h.charged == nil || h.charged.held+n > h.charged.high { // in this form the compiler inlines it
		return h.makeRoom(n)
	}
	return nil
}

//go:noinline
func (h *Holder) makeRoom(n int) error {
	p := h.Account()
	t := p.t
	limit := t.Limits.Bytes
	fits := func(limit int) bool { return p.reserve(n, limit) }
	if fits(limit) {
		return nil
	}
	t.trim()
	return t.enforce(h, ledger.Bytes, n, limit, fits, func() error {
		return fmt.Errorf("ucp: unexpected messages hold %d bytes, %d more exceed UCX_MAX_UNEXP_BYTES=%d: %w",
			ledger.Total(ledger.Bytes), n, limit, ucs.ErrExceedsLimit)
	})
}

// TryCharge is like Charge, but evicts no holder. It reports whether there is room for n more
// bytes.
func (h *Holder) TryCharge(n int) bool {
	p := h.Account()
	return p.reserve(n, p.t.Limits.Bytes)
}

// MayOpen returns an error if the peer may not open one more endpoint toward the worker. At the
// limit of the process it evicts holders as Charge does.
func (h *Holder) MayOpen() error {
	t := h.Account().t
	limit := t.Limits.Endpoints
	fits := func(limit int) bool { return ledger.Total(ledger.Endpoints) < int64(limit) }
	if fits(limit) {
		return nil
	}
	return t.enforce(h, ledger.Endpoints, 1, limit, fits, func() error {
		return fmt.Errorf("ucp: peers have opened %d endpoints, UCX_MAX_UNEXP_EPS=%d: %w",
			ledger.Total(ledger.Endpoints), limit, ucs.ErrExceedsLimit)
	})
}

// enforce makes room for n more of a kind that holder h requests: it evicts holders until fits
// returns true for the limit. If it cannot make room it returns the error that say makes.
func (t *Table) enforce(h *Holder, k ledger.Kind, n, limit int, fits func(limit int) bool, say func() error) error {
	t.host.Bind()
	mine := h.Account().ledger
	for asked := false; ; {
		if fits(limit) {
			return nil
		}
		who, most, strange := ledger.Greediest(k)
		theirs := t.find(who)
		var victim *Holder // of this worker, which is evicted
		switch {
		case who == mine.Source():
			victim = h.Account().largest(k)
			if victim != nil && (victim.amount(k) <= h.amount(k)+n || victim.amount(k) <= t.unnamed.amount(k) && t.unnamed.charged == h.Account()) {
				victim = nil
			}
		case strange && !mine.IsUnknown() || strange == mine.IsUnknown() && most > mine.Of(k)+int64(n):
			if theirs != nil {
				victim = theirs.largest(k)
			}
			if victim != nil && theirs == t.unnamed.charged && victim.amount(k) <= t.unnamed.amount(k) {
				victim = nil // the connection that holds most cannot be identified
			}
			if victim == nil || 2*int64(theirs.amount(k)) < most { // other workers hold most of it
				if !asked && t.askSiblings() > 0 {
					asked = true
					if fits(limit + overshoot(limit)) {
						return nil
					}
				}
			}
		}
		if victim == nil {
			break
		}
		t.evict(victim, say()) // the loop ends, because no holder is evicted twice
	}
	if share := int64(limit) / int64(ledger.OpenAccounts()+1); mine.Source() != ledger.Shared && mine.Of(k)+int64(n) <= share &&
		fits(limit+overshoot(limit)) {
		return nil
	}
	reason := ledger.Memory
	if k == ledger.Endpoints {
		reason = ledger.TooManyEps
	}
	err := say()
	t.host.LogRefusal(mine, reason, err)
	return err
}

// evict drops a connection and frees what the connection made the worker hold.
func (t *Table) evict(h *Holder, reason error) {
	h.evicted = true
	h.owner.Evict(reason)
	t.trim()
}

// Reclaim is called by the table's worker after another worker has called Host.Wake. It evicts
// holders of the accounts that hold most until each total of the process is below its limit by
// overshoot. It stops at an account of which this worker has no holder to evict.
func (t *Table) Reclaim() {
	t.trim()
	t.host.Bind()
	for _, l := range []struct {
		kind  ledger.Kind
		limit int
	}{{ledger.Bytes, t.Limits.Bytes}, {ledger.Endpoints, t.Limits.Endpoints}} {
		target := int64(l.limit - overshoot(l.limit))
		for ledger.Total(l.kind) > target {
			who, _, _ := ledger.Greediest(l.kind)
			p := t.find(who)
			if p == nil {
				break
			}
			victim := p.largest(l.kind)
			if victim == nil {
				break
			}
			t.evict(victim, fmt.Errorf("ucp: the process holds too many %s for peers, and another worker needs room: %w", l.kind, ucs.ErrExceedsLimit))
		}
	}
}
