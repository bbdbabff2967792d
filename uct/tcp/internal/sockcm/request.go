//go:build linux

package sockcm

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/uct"
)

// request is a client that waits for the application. It is in its listener's list until
// somebody, of any goroutine, consumes it.
type request struct {
	link
	l       *listener
	account *ledger.Account
	gone    error // why it cannot be consumed any more; guarded by l.mu
	public  uct.ConnRequest
}

// present makes a request of a visitor that has left, and shows it to the application.
func (v *visitor) present(private []byte) {
	l := v.l
	m := l.m
	device, err := m.host.Device(v.fd, v.local.Addr())
	if err != nil {
		v.refuse(ledger.Connections, err.Error())
		return
	}
	if !v.known {
		v.source = m.source(&v.link)
	}
	r := &request{link: v.link, l: l, account: v.account}
	r.public = uct.ConnRequest{
		Source:           v.source,
		LocalAddr:        v.local,
		Device:           device,
		RemoteDeviceAddr: m.host.DeviceAddr(v.remote.Addr()),
		Private:          private,
		Owner:            r,
	}
	if !l.admit(r) {
		r.refuse()
		return
	}
	l.params.OnRequest(l, &r.public)
}

// admit puts a request on the list, if the backlog allows, or one of a source with more of them
// makes room for it.
func (l *listener) admit(r *request) bool {
	l.mu.Lock()
	q, room := l.pending.Add(r, r.account.Source())
	if q != nil {
		q.gone = errCrowded
	}
	l.mu.Unlock()
	if q != nil {
		q.refuse()
	}
	return room
}

// refuse turns a client away because others wait.
func (r *request) refuse() {
	if r.account.Refuse(ledger.Connections) {
		r.l.m.w.Log().Diag("rejecting a client: too many are waiting", zap.Stringer("listener", r.l.addr), zap.Int("backlog", r.l.pending.Most()))
	}
	r.turnAway()
	settle(r.account)
}

// take consumes the request: its connection is the caller's from then on.
func (r *request) take() error {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.gone != nil {
		return r.gone
	}
	r.gone = errConsumed
	l.pending.Remove(r)
	settle(r.account)
	return nil
}

// RejectRequest implements uct.ConnRequestOwner. That the client has gone meanwhile is
// none of the caller's business.
func (r *request) RejectRequest() error {
	if err := r.take(); err != nil {
		return err
	}
	r.turnAway()
	return nil
}

// dropRequests ends the requests of a listener that is closed.
func (l *listener) dropRequests() {
	l.mu.Lock()
	pending := l.pending.Drain()
	for _, r := range pending {
		r.gone = errDropped
	}
	l.mu.Unlock()
	for _, r := range pending {
		r.close()
		settle(r.account)
	}
}
