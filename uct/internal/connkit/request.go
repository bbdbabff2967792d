package connkit

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Charge holds the resources charged to the source of a client until the application has consumed
// the client's request: a connection and its descriptors.
type Charge struct {
	Account *ledger.Account
	files   int64
}

// ChargeTo charges a source with one connection and the given number of descriptors.
func ChargeTo(source netip.Addr, files int64) Charge {
	c := Charge{ledger.Open(ledger.SourceOf(source, -1)), files}
	c.Account.Add(ledger.Conns, 1)
	c.Account.Add(ledger.Files, files)
	return c
}

// Exceeds reports whether the source has more connections in this process than the limit ofSource,
// or all sources together have more than the limit all.
func (c Charge) Exceeds(ofSource, all int64) bool {
	return c.Account.Of(ledger.Conns) > ofSource || ledger.Total(ledger.Conns) > all
}

// Settle gives the charged resources back to the account of the source.
func (c Charge) Settle() {
	c.Account.Add(ledger.Conns, -1)
	c.Account.Add(ledger.Files, -c.files)
	c.Account.Close()
}

// Listener is the base of a uct.Listener.
type Listener struct {
	Params uct.ListenParams
	m      *Manager
	addr   netip.AddrPort

	mu      sync.Mutex
	pending *ledger.Backlog[*Request] // guarded by mu: requests that are not consumed
}

// Backlog returns the system's largest backlog, which it parses from the text of the kernel's file,
// or the default usual if the text is not a positive number.
func Backlog(text []byte, usual int) int {
	if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && n > 0 {
		return n
	}
	return usual
}

// Init checks the parameters of uct.ConnManager.Listen and prepares the list of requests. The
// parameter most is the largest backlog of the system.
func (l *Listener) Init(m *Manager, at netip.AddrPort, p uct.ListenParams, most int) error {
	switch {
	case m.Worker == nil:
		return m.error(errClosed)
	case p.Backlog < 0 || p.OnRequest == nil || !at.IsValid():
		return m.error(fmt.Errorf("listen on %v with a backlog of %d: address, OnRequest or backlog is invalid: %w", at, p.Backlog, ucs.ErrInvalidParam))
	}
	if p.Backlog > 0 {
		most = min(p.Backlog, most)
	}
	l.m, l.Params, l.pending = m, p, ledger.NewBacklog[*Request](most)
	return nil
}

// Backlog returns the number of requests that may wait.
func (l *Listener) Backlog() int { return l.pending.Most() }

// Reuse reports whether the listener may use a port that connections still use.
func (l *Listener) Reuse() bool { return l.m.settings.ReuseAddr || l.Params.ReuseAddr }

// Opened adds a listener to its manager when the listener listens at the address addr.
func (l *Listener) Opened(self uct.Listener, addr netip.AddrPort) {
	l.addr = addr
	l.m.listeners[self] = struct{}{}
}

// Addr implements uct.Listener.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Drop removes a listener that is being closed from its manager, and drops all waiting requests.
func (l *Listener) Drop(self uct.Listener) {
	delete(l.m.listeners, self)
	l.mu.Lock()
	pending := l.pending.Drain()
	for _, r := range pending {
		r.gone = errDropped
	}
	l.mu.Unlock()
	for _, r := range pending {
		r.client.Drop()
		r.Settle()
	}
}

// Full returns the reason to refuse a client because the list has no room for its request, or "" if
// there is room.
func (l *Listener) Full(c Charge) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending.HasRoom(c.Account.Source()) {
		return ""
	}
	return fmt.Sprintf("%d requests are waiting, which is the limit", l.pending.Most())
}

// Present adds a request to the list and passes it to the application. If the list is full, the
// manager rejects a request of a source with more requests to make room, or this request if there
// is no such source.
func (l *Listener) Present(self uct.Listener, r *Request) {
	l.mu.Lock()
	evicted, ok := l.pending.Add(r, r.Account.Source())
	if evicted != nil {
		evicted.gone = errEvicted
	}
	l.mu.Unlock()
	if evicted != nil {
		evicted.Refuse(ledger.Connections, "evicted: its source has many requests, and other sources need room")
	}
	if !ok {
		r.Refuse(ledger.Connections, l.Full(r.Charge))
		return
	}
	l.Params.OnRequest(self, &r.Public)
}

// Refused counts a refused client, and logs what the manager does with the client (doing) and why,
// once a minute at most for each reason.
func (l *Listener) Refused(c Charge, reason ledger.Reason, doing string, client netip.AddrPort, why string) {
	if c.Account.Refuse(reason) {
		l.m.Worker.Log().Diag(doing+" a client of the connection manager (further ones may not be logged)",
			zap.String("manager", l.m.attr.Component), zap.Stringer("listener", l.addr), zap.Stringer("client", client), zap.String("reason", why))
	}
}

// Client is the transport's side of a request.
type Client interface {
	// Reject rejects the client and closes the connection. It does nothing if the client is gone.
	Reject()

	// Drop closes the connection without a rejection.
	Drop()
}

// Request is a client's request that waits for the application. It is in its listener's list from
// Present until any goroutine consumes it.
type Request struct {
	Charge
	Public uct.ConnRequest
	l      *Listener
	client Client
	gone   error // reason why it cannot be consumed any more; guarded by l.mu
}

// Init prepares a request, which owns the charge from then on.
func (r *Request) Init(l *Listener, client Client, c Charge) {
	r.l, r.client, r.Charge = l, client, c
	r.Public.Owner, r.Public.Reject = r, r.reject
}

// Refuse rejects the client of a request that the application has not seen, or that was removed
// from the list to make room for another.
func (r *Request) Refuse(reason ledger.Reason, why string) {
	r.l.Refused(r.Charge, reason, "rejecting", r.Public.Source.Addr, why)
	r.client.Reject()
	r.Settle()
}

// take removes the request from the list and settles its charge. The caller owns the connection
// from then on. The error is the reason why the request was consumed or dropped before.
func (r *Request) take() error {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.gone != nil {
		return l.m.error(r.gone)
	}
	r.gone = errConsumed
	l.pending.Remove(r)
	r.Settle()
	return nil
}

// Dropped returns the error of accepting a request whose listener is closed at the same time.
func (r *Request) Dropped() error { return r.l.m.error(errDropped) }

// reject implements uct.ConnRequest.Reject. It returns no error if the client is gone by then.
func (r *Request) reject() error {
	if err := r.take(); err != nil {
		return err
	}
	r.client.Reject()
	return nil
}
