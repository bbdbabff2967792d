//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// oneDevice limits endpoints to lanes of the device that the connection is made over.
var oneDevice = setting{"CM_USE_ALL_DEVICES", "n"}

// connTransports are the transports with a connection manager. By default the two sides agree on
// lanes of all devices once they are connected.
var connTransports = func() (list []transport) {
	tcp := []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}
	for _, tr := range []transport{
		{name: "tcp", settings: tcp},
		{name: "tcp, posix and cma", settings: []setting{{"TLS", "tcp,posix,cma"}, {"NET_DEVICES", "lo"}}},
		transport{name: "tcp with small buffers", settings: tcp}.with(setting{"TCP_SNDBUF", "4k"}, setting{"TCP_RCVBUF", "4k"}),
		{name: "all", settings: allLocal.settings},
	} {
		one := tr.with(oneDevice)
		one.name += ", one device"
		list = append(list, tr, one)
	}
	v1 := transport{name: "tcp, data v1", settings: tcp}.with(setting{"SA_DATA_VERSION", "v1"})
	v1one := v1.with(oneDevice)
	v1one.name += ", one device"
	// The device has addresses of both families, and worker addresses contain that of the other
	// family.
	other := transport{name: "tcp, the other family", settings: tcp, listen: netip.IPv6Loopback()}
	otherOne := other.with(oneDevice)
	otherOne.name += ", one device"
	list = append(list, v1, v1one, other, otherOne,
		transport{name: "tcp, IPv4 as the other family", settings: tcp}.with(setting{"TCP_AF_PRIO", "inet6,inet"}),
		transport{name: "tcp, IPv6", settings: tcp, listen: netip.IPv6Loopback()}.with(setting{"TCP_AF_PRIO", "inet6"}),
		transport{name: "tcp", settings: tcp}.shared(),
		transport{name: "all", settings: allLocal.settings}.shared(),
	)
	for i, tr := range list {
		if !slices.Contains([]string{"tcp", "tcp, posix and cma", "all"}, tr.name) {
			list[i].turn = 1 + i
		}
	}
	return list
}()

// inBothModes runs a test in each error mode.
func inBothModes(run func(t *testing.T, tr transport, mode ucp.ErrMode)) func(*testing.T, transport) {
	return func(t *testing.T, tr transport) {
		for _, mode := range bothModes {
			t.Run(fmt.Sprintf("mode %d", mode), func(t *testing.T) { run(t, tr, mode) })
		}
	}
}

// anyPort is the address at which tests of a transport listen.
func (tr transport) anyPort(t testing.TB) netip.AddrPort {
	t.Helper()
	if !tr.listen.IsValid() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	}
	return netip.AddrPortFrom(tr.listen, 0)
}

// listeningSide is a side with a listener, and the endpoints that it has accepted.
type listeningSide struct {
	*side
	*ucp.Listener
	requests []*ucp.ConnRequest // pending requests, if they are not accepted at once
	eps      []*ucp.Endpoint
	failures map[*ucp.Endpoint]error
}

// hall opens a listener. It accepts every client with the client's error mode, or keeps the
// requests if wait is true.
func (s *side) hall(wait bool) *listeningSide {
	s.rig.Helper()
	h := &listeningSide{side: s, failures: make(map[*ucp.Endpoint]error)}
	var err error
	h.Listener, err = s.NewListener(ucp.ListenerParams{Addr: s.rig.anyPort(s.rig), OnConnRequest: func(q *ucp.ConnRequest) {
		if h.requests = append(h.requests, q); !wait {
			h.admit(s)
		}
	}})
	if err != nil {
		s.rig.Fatal(err)
	}
	return h
}

// admit accepts the first pending request on a side of the same context.
func (h *listeningSide) admit(on *side) *ucp.Endpoint {
	h.rig.Helper()
	q := h.requests[0]
	h.requests = h.requests[1:]
	ep, err := on.NewEndpoint(ucp.EndpointParams{ConnRequest: q, ErrMode: q.ErrMode(), OnError: h.onError})
	if err != nil {
		if !errors.Is(err, ucs.ErrBusy) { // unless it is being shut down
			h.rig.Errorf("accepting a client: %v", err)
		}
		return nil
	}
	h.eps = append(h.eps, ep)
	return ep
}

func (h *listeningSide) onError(ep *ucp.Endpoint, err error, _ any) {
	if h.failures[ep] != nil {
		h.rig.Errorf("the handler of an endpoint is called again: %v", err)
	}
	h.failures[ep] = err
}

// dial connects to the listener.
func (s *side) dial(h *listeningSide, p ucp.EndpointParams) *ucp.Endpoint {
	s.rig.Helper()
	p.RemoteAddr = h.Listener.Addr()
	if p.OnError != nil && p.ErrMode == ucp.ErrModeNone {
		s.rig.log.Allow(neverCalled) // the warning comes once for each worker
	}
	ep, err := s.NewEndpoint(p)
	if err != nil {
		s.rig.Fatal(err)
	}
	return ep
}

// joined connects two sides and returns both endpoints when each has sent a message to the other.
func (r *rig) joined(c *side, h *listeningSide, p ucp.EndpointParams) (there, back *ucp.Endpoint) {
	r.Helper()
	n := len(h.eps)
	there = c.dial(h, p)
	r.until("the server's end", func() bool { return len(h.eps) > n })
	back = h.eps[n]
	r.exchange(there, h.side, back, c)
	return there, back
}

// newConnRig returns a rig, or skips the test if the machine lacks what it needs.
func newConnRig(t *testing.T, tr transport) *rig {
	t.Helper()
	if tr.listen.IsValid() {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(tr.anyPort(t)))
		if err != nil {
			t.Skip(err)
		}
		l.Close()
	}
	return newRig(t, tr)
}

// openOneSided opens a worker with one-sided features.
func (r *rig) openOneSided(wp ucp.WorkerParams) *side {
	r.Helper()
	return r.openWith(ucp.ContextParams{Features: oneSided}, wp)
}

// onAlso opens another worker of the side's context.
func (s *side) onAlso() *side {
	s.rig.Helper()
	w, err := s.ctx.NewWorker(ucp.WorkerParams{ThreadMode: s.rig.mode})
	if err != nil {
		s.rig.Fatal(err)
	}
	o := &side{Worker: w, rig: s.rig, ctx: s.ctx, fd: -1, guest: true}
	s.rig.sides = append([]*side{o}, s.rig.sides...) // to be closed before its context
	return o
}

// isOneOf reports whether an error has one of these status codes.
func isOneOf(err error, want ...ucs.Status) bool {
	return slices.ContainsFunc(want, func(s ucs.Status) bool { return errors.Is(err, s) })
}
