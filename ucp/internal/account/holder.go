package account

import (
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp/internal/list"
)

// Holder counts what the peer of one connection makes the worker hold. It is embedded in the Owner,
// which has lists of what is held. The holder's account is charged with the same amounts.
type Holder struct {
	member  list.Member[Holder] // in the set of the holders of one account
	owner   Owner
	charged *Account // the holder's account, nil before the first charge

	held       int // bytes of unexpected messages
	replyBytes int // bytes of answers and replies that wait for the transport

	// AwaitingPeerBytes is the part of ReplyBytes for replies that complete only when another message of
	// the peer arrives, such as an acknowledgement.
	AwaitingPeerBytes int

	resumeAt int   // the connection is read again when Unprompted returns at most this many bytes
	checkAt  int   // the reply limit is checked again when replyBytes is at least this
	opened   int32 // endpoints opened by the peer and not claimed by the application
	paused   bool  // the worker does not read the connection until the peer reads its replies
	ended    bool  // the connection has ended
	evicted  bool  // the connection was dropped at a limit, and what could be freed was freed
	detached bool  // the connection has ended, nothing is charged, and the holder is in no list
}

// Owner is the connection of a holder.
type Owner interface {
	// FindAccount attaches the holder to the account of the peer (Table.Attach), and returns the
	// account. It is called when something is charged for the first time. For a connection that
	// has ended it returns the account of the table's unnamed holder, and attaches nothing.
	FindAccount() *Account

	// Evict drops the connection, frees what the worker holds for it, and reduces the charges of
	// the holder accordingly.
	Evict(reason error)

	// ReadOn resumes reading the connection, because the peer has read enough replies.
	ReadOn()
}

// Account returns the account that is charged for the holder. The first call asks the owner for it.
func (h *Holder) Account() *Account {
	if h.charged == nil {
		return h.findAccount()
	}
	return h.charged
}

//go:noinline
func (h *Holder) findAccount() *Account { return h.owner.FindAccount() }

// Held returns the bytes of messages that the holder is charged with.
func (h *Holder) Held() int { return h.held }

// Opened returns the number of endpoints that the peer has opened and the application has not
// claimed.
func (h *Holder) Opened() int { return int(h.opened) }

// Detached reports whether the connection has ended and nothing is held for it any more. Further
// charges of a detached holder go to the account of the table's unnamed holder.
func (h *Holder) Detached() bool { return h.detached }

// amount returns how much of a kind the holder is charged with: endpoints or bytes of messages.
func (h *Holder) amount(k ledger.Kind) int {
	if k == ledger.Endpoints {
		return int(h.opened)
	}
	return h.held
}

// AddBytes charges the holder with n more bytes of messages. It does not check the limit (see Charge).
func (h *Holder) AddBytes(n int) {
	h.held += n
	h.Account().held += n
}

// SubBytes reduces the charge of the holder by n bytes of messages.
func (h *Holder) SubBytes(n int) {
	p := h.Account()
	h.held -= n
	p.held -= n
	if p.held < p.low || h.ended {
		h.Settle()
	}
}

// AddEndpoint charges the holder with an endpoint that the peer has opened.
func (h *Holder) AddEndpoint() {
	p := h.Account()
	h.opened++
	p.opened++
	p.ledger.Add(ledger.Endpoints, 1)
}

// SubEndpoint undoes AddEndpoint, because the endpoint is closed or the application has claimed it.
func (h *Holder) SubEndpoint() {
	p := h.Account()
	h.opened--
	p.opened--
	p.ledger.Add(ledger.Endpoints, -1)
	if h.ended {
		h.Settle()
	}
}

// SetEnded records that the connection has ended. What the worker holds for it is still charged.
// The owner then calls Settle.
func (h *Holder) SetEnded() { h.ended, h.paused = true, false }

// Settle returns to the ledger what is charged in advance beyond need. It detaches the holder if
// its connection has ended and nothing is charged to it.
func (h *Holder) Settle() {
	p := h.charged
	if h.detached {
		p = h.Account()
	}
	if p != nil && p.held < p.low {
		p.resize(p.held + p.t.slack(p.held))
	}
	if h.detached || !h.ended || h.held != 0 || h.opened != 0 || h.replyBytes != 0 {
		return
	}
	h.detached = true
	h.Account().t.holders--
	if p != nil {
		p.remove(h)
	}
}
