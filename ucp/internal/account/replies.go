package account

import "github.com/ucx-go/ucx/internal/ledger"

// Limits in bytes of the unread replies of a connection. The lower limit applies while an account
// or the process has many unread replies (Account.hasManyReplies). A connection is dropped at
// DropMultiple times the limit at which the worker stops reading it.
const (
	StopReplies    = 16 << 20  // default of Limits.StopReplies
	MinStopReplies = 256 << 10 // lower limit at which the worker stops reading a connection
	DropMultiple   = 4
)

// replyStep is the step in bytes in which an account charges the ledger with answers and replies.
const replyStep = 64 << 10

// ReplyBytes returns the bytes of answers and replies that the holder is charged with.
func (h *Holder) ReplyBytes() int { return h.replyBytes }

// Unprompted returns the bytes of those answers and replies that complete as soon as the peer reads
// them, without another message of the peer.
func (h *Holder) Unprompted() int { return h.replyBytes - h.AwaitingPeerBytes }

// Paused reports whether the worker does not read the connection because of unread replies.
func (h *Holder) Paused() bool { return h.paused }

// AddReplies charges the holder with n bytes of answers or replies that wait for the transport.
func (h *Holder) AddReplies(n int) {
	h.replyBytes += n
	p := h.Account()
	p.replyBytes += n
	p.t.replyBytes += n
	if p.replyBytes > p.replyHigh {
		p.reserveReplies()
	}
}

// reserveReplies charges the ledger for the answers and replies of the account and one step more.
func (p *Account) reserveReplies() {
	p.ledger.Add(ledger.Owed, int64(p.replyBytes+replyStep-p.replyHigh))
	p.replyHigh = p.replyBytes + replyStep
}

// SubReplies reduces the charge of AddReplies by n bytes. If the worker has stopped reading the
// connection, and at most half of the replies are left, it calls Owner.ReadOn.
func (h *Holder) SubReplies(n int) {
	h.replyBytes -= n
	p := h.Account()
	p.replyBytes -= n
	p.t.replyBytes -= n
	if p.replyHigh-p.replyBytes > 4*replyStep {
		p.reserveReplies()
	}
	if h.paused && h.Unprompted() <= h.resumeAt {
		h.paused = false
		h.owner.ReadOn()
	}
	if h.replyBytes < h.checkAt/2 {
		h.checkAt = 0
	}
	if h.ended {
		h.Settle()
	}
}

// hasManyReplies reports whether the account, or the process, is charged with so much for answers and
// replies that the lower limits of a connection apply: more than a sixteenth of the limit of bytes
// for the account, or more than an eighth for the process.
func (p *Account) hasManyReplies() bool {
	most := int64(p.t.Limits.Bytes / 4)
	return ledger.Total(ledger.Owed) > most/2 || p.ledger.Of(ledger.Owed) > most/4
}

// MustStop reports whether the worker must stop reading the connection because of unread replies. A
// worker that cannot stop reading calls OverLimit instead, after which MustStop reports false until
// more was charged.
func (h *Holder) MustStop() bool {
	if h.replyBytes < h.checkAt {
		return false
	}
	n, p := h.Unprompted(), h.Account()
	return n > p.t.Limits.StopReplies || n > MinStopReplies && p.hasManyReplies()
}

// SetPaused records that the worker does not read the connection. Owner.ReadOn is called when at
// most half of the replies are left.
func (h *Holder) SetPaused() { h.paused, h.resumeAt = true, h.Unprompted()/2 }

// ReplyLimits returns the bytes of unread replies at which the worker stops reading the connection,
// and those at which it drops the connection.
func (h *Holder) ReplyLimits() (stop, drop int) {
	p := h.Account()
	stop, drop = p.t.Limits.StopReplies, p.t.Limits.DropReplies
	if h.replyBytes > MinStopReplies && p.hasManyReplies() {
		stop, drop = min(stop, MinStopReplies), min(drop, DropMultiple*MinStopReplies)
	}
	return stop, drop
}

// OverLimit reports whether a connection that the worker cannot stop reading must be dropped.
func (h *Holder) OverLimit() bool {
	_, most := h.ReplyLimits()
	h.checkAt = h.replyBytes + most/32
	return h.replyBytes > most && !h.paused
}
