//go:build linux

package sockcm

import (
	"net/netip"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// visitor is an accepted connection whose request is not here yet.
type visitor struct {
	link
	l       *listener
	account *ledger.Account // charged with the connection
	source  uct.SourceInfo
	known   bool // source is
	waits   bool // in the list of the manager, and in the event set
	whole   bool // the request was here
}

// wait leaves the visitor to the event set.
func (v *visitor) wait() {
	m := v.l.m
	if err := m.w.Events().Add(v.fd, event.Read, v); err != nil {
		v.refuse(ledger.Descriptors, err.Error())
		return
	}
	v.waits = true
	m.visitors = append(m.visitors, v)
	most := m.host.Limits.Visitors
	if m.waiting(v.account) > max(most/2, 1) {
		m.dismissOldest(func(o *visitor) bool { return o.account == v.account }, ledger.Connections)
	} else if len(m.visitors) > most {
		m.evict(0, ledger.Connections)
	}
}

// leave ends that.
func (v *visitor) leave() {
	if !v.waits {
		return
	}
	m := v.l.m
	v.waits = false
	m.w.Events().Remove(v.fd)
	i := slices.Index(m.visitors, v)
	m.visitors = slices.Delete(m.visitors, i, i+1)
}

// drop closes the connection of a visitor that has left.
func (v *visitor) drop() {
	v.abort()
	settle(v.account)
}

// settle gives back what the connection of a visitor or a request was charged with.
func settle(a *ledger.Account) {
	a.Add(ledger.Conns, -1)
	a.Add(ledger.Files, -1)
	a.Close()
}

// refuse sends a visitor away.
func (v *visitor) refuse(r ledger.Reason, why string) {
	if v.account.Refuse(r) {
		v.l.m.w.Log().Diag("closing a connection to the connection manager; there may be more, which are not logged",
			zap.Stringer("listener", v.l.addr), zap.Stringer("peer", v.remote), zap.String("reason", why))
	}
	v.leave()
	v.drop()
}

// HandleEvent reads.
func (v *visitor) HandleEvent(event.Events) { v.read() }

// read goes on with the request.
func (v *visitor) read() {
	msg, whole, err := v.readMessage(v.l.m.buf)
	switch {
	case err != nil && v.in == nil:
		v.leave() // somebody who has looked whether we are here
		v.drop()
	case err != nil:
		v.refuse(ledger.Malformed, err.Error())
	case whole:
		v.whole = true
		v.leave()
		v.present(msg.private)
	}
}

// makeRoom sees to it that a new visitor may stay, and reports whether it may.
func (v *visitor) makeRoom() bool {
	m := v.l.m
	b := &m.host.Limits
	switch {
	case v.account.Of(ledger.Conns) > int64(b.OfSource), ledger.Total(ledger.Conns) > int64(b.All):
		v.refuse(ledger.Connections, "too many connections")
		return false
	case v.fd < m.ceiling:
		return true
	case !m.evict(b.Few, ledger.Descriptors):
		v.refuse(ledger.Descriptors, "the remaining descriptors are reserved for the application, raise the limit (ulimit -n)")
		return false
	}
	// It takes the descriptor of who has left. Otherwise the next one got that, and
	// both stayed.
	if fd, err := unix.FcntlInt(uintptr(v.fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		unix.Close(v.fd)
		v.fd = fd
	}
	return true
}

// waiting is how many visitors a source has here.
func (m *manager) waiting(a *ledger.Account) int {
	n := 0
	for _, v := range m.visitors {
		if v.account == a {
			n++
		}
	}
	return n
}

// visitorsOf are those of a listener.
func (m *manager) visitorsOf(l *listener) (list []*visitor) {
	for _, v := range m.visitors {
		if v.l == l {
			list = append(list, v)
		}
	}
	return list
}

// dismissOldest sends the oldest of some visitors away.
func (m *manager) dismissOldest(of func(*visitor) bool, r ledger.Reason) {
	if i := slices.IndexFunc(m.visitors, of); i >= 0 {
		m.visitors[i].refuse(r, "others are waiting, and it is the oldest without a request")
	}
}

// evict sends the oldest visitor of the crowd away, the source or network with the most
// of them (ledger.Crowded says how they compare), and reports whether there was one with
// more than so many.
func (m *manager) evict(many int, r ledger.Reason) bool {
	sources := make(map[*ledger.Account]int)
	nets := make(map[netip.Prefix]int)
	for _, v := range m.visitors {
		sources[v.account]++
		list, _ := v.account.Source().Nets()
		for _, net := range list {
			nets[net]++
		}
	}
	// In the order of the list, as that of a map is none.
	var crowd func(*visitor) bool
	weight := 0
	for _, v := range m.visitors {
		if n := sources[v.account]; n > many && n > weight {
			weight, crowd = n, func(o *visitor) bool { return o.account == v.account }
		}
		list, ok := v.account.Source().Nets()
		if !ok {
			continue
		}
		share := 1
		for _, net := range list {
			share *= max(m.host.Limits.Few, 1)
			if n := nets[net]; n > many && n/share > weight {
				weight, crowd = n/share, func(o *visitor) bool { return net.Contains(o.account.Source().Addr) }
			}
		}
	}
	if weight == 0 {
		return false
	}
	m.dismissOldest(crowd, r)
	return true
}
