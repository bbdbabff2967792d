//go:build linux

package sockcm

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// pendingConn is an accepted connection whose request is not complete.
type pendingConn struct {
	link
	connkit.Charge
	l      *listener
	source uct.SourceInfo
	known  bool // source is valid
	waits  bool // the visitor is in the list of the manager and in the event set
	whole  bool // the request is complete
}

// wait adds the visitor to the event set, and evicts the oldest visitor if there are too many.
func (v *pendingConn) wait() {
	m := v.l.m
	if err := m.Worker.Events().Add(v.fd, event.Read, v); err != nil {
		v.refuse(ledger.Descriptors, err.Error())
		return
	}
	v.waits = true
	m.pendingConns = append(m.pendingConns, v)
	most := m.host.Limits.Visitors
	if m.waiting(v.Account) > max(most/2, 1) {
		m.dismissOldest(func(o *pendingConn) bool { return o.Account == v.Account }, ledger.Connections)
	} else if len(m.pendingConns) > most {
		m.evict(0, ledger.Connections)
	}
}

// leave removes a visitor that waits from the event set and from the manager's list.
func (v *pendingConn) leave() {
	if !v.waits {
		return
	}
	m := v.l.m
	v.waits = false
	m.Worker.Events().Remove(v.fd)
	i := slices.Index(m.pendingConns, v)
	m.pendingConns = slices.Delete(m.pendingConns, i, i+1)
}

// drop closes the connection of a visitor that is not in the event set, and ends its charge.
func (v *pendingConn) drop() {
	v.abort()
	v.Settle()
}

// refuse closes the connection of a visitor and logs the reason.
func (v *pendingConn) refuse(r ledger.Reason, why string) {
	v.l.Refused(v.Charge, r, "closing the connection of", v.Remote, why)
	v.leave()
	v.drop()
}

// HandleEvent implements event.Handler.
func (v *pendingConn) HandleEvent(event.Events) { v.read() }

// read continues to receive the request.
func (v *pendingConn) read() {
	msg, whole, err := v.readMessage(v.l.m.buf)
	switch {
	case err != nil && v.in == nil:
		v.leave() // the peer sent nothing, for example a port check
		v.drop()
	case err != nil:
		v.refuse(ledger.Malformed, err.Error())
	case whole:
		v.whole = true
		v.leave()
		v.present(msg.private)
	}
}

// makeRoom reports whether a new visitor is within the limits. If the descriptors for untrusted
// peers are used up, it evicts another visitor. It closes a visitor for which there is no room.
func (v *pendingConn) makeRoom() bool {
	m := v.l.m
	b := &m.host.Limits
	switch {
	case v.Exceeds(int64(b.OfSource), int64(b.All)):
		v.refuse(ledger.Connections, "too many connections")
		return false
	case v.fd < m.ceiling:
		return true
	case !m.evict(b.Few, ledger.Descriptors):
		v.refuse(ledger.Descriptors, "the remaining descriptors are reserved for the application, raise the limit (ulimit -n)")
		return false
	}
	// Move the socket to the descriptor number of the evicted visitor. Otherwise the next
	// connection would get that number, and both connections would stay.
	if fd, err := unix.FcntlInt(uintptr(v.fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		unix.Close(v.fd)
		v.fd = fd
	}
	return true
}

// waiting returns the number of visitors of a source at this manager.
func (m *manager) waiting(a *ledger.Account) int {
	n := 0
	for _, v := range m.pendingConns {
		if v.Account == a {
			n++
		}
	}
	return n
}

// visitorsOf returns the visitors of a listener.
func (m *manager) visitorsOf(l *listener) (list []*pendingConn) {
	for _, v := range m.pendingConns {
		if v.l == l {
			list = append(list, v)
		}
	}
	return list
}

// dismissOldest closes the oldest visitor for which the function of returns true.
func (m *manager) dismissOldest(of func(*pendingConn) bool, r ledger.Reason) {
	if i := slices.IndexFunc(m.pendingConns, of); i >= 0 {
		m.pendingConns[i].refuse(r, "evicted: the oldest connection without a request, to make room for others")
	}
}

// evict closes the oldest visitor of the source or network with the most visitors, by the weights
// of ledger.NetWeight. Only sources and networks whose number of visitors exceeds the parameter many
// are considered. evict reports whether there was one.
func (m *manager) evict(many int, r ledger.Reason) bool {
	sources := make(map[*ledger.Account]int)
	nets := make(map[netip.Prefix]int)
	for _, v := range m.pendingConns {
		sources[v.Account]++
		list, _ := v.Account.Source().Nets()
		for _, net := range list {
			nets[net]++
		}
	}
	// Iterate over the list, because the order of a map is random.
	var inGroup func(*pendingConn) bool
	weight := 0
	for _, v := range m.pendingConns {
		if n := sources[v.Account]; n > many && n > weight {
			weight, inGroup = n, func(o *pendingConn) bool { return o.Account == v.Account }
		}
		list, ok := v.Account.Source().Nets()
		if !ok {
			continue
		}
		for level, net := range list {
			n := nets[net]
			if w := ledger.NetWeight(n, len(m.pendingConns), level, m.host.Limits.Few); n > many && w > weight {
				weight, inGroup = w, func(o *pendingConn) bool { return net.Contains(o.Account.Source().Addr) }
			}
		}
	}
	if weight == 0 {
		return false
	}
	m.dismissOldest(inGroup, r)
	return true
}
