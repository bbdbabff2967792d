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

// oneDevice lets endpoints keep the lanes of the device that the connection goes over.
var oneDevice = setting{"CM_USE_ALL_DEVICES", "n"}

// connTransports are those that have a connection manager. By default the two sides agree
// on lanes of all devices once they are connected.
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
	// The device has addresses of both families, and workers name that of the other one.
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

// inBothModes runs a test in each.
func inBothModes(run func(t *testing.T, tr transport, mode ucp.ErrMode)) func(*testing.T, transport) {
	return func(t *testing.T, tr transport) {
		for _, mode := range bothModes {
			t.Run(fmt.Sprintf("mode %d", mode), func(t *testing.T) { run(t, tr, mode) })
		}
	}
}

// anyPort is where the tests of a transport listen.
func (tr transport) anyPort(t testing.TB) netip.AddrPort {
	t.Helper()
	if !tr.listen.IsValid() {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	}
	return netip.AddrPortFrom(tr.listen, 0)
}

// listeningSide is a side that listens, and whom it has let in.
type listeningSide struct {
	*side
	*ucp.Listener
	requests []*ucp.ConnRequest // that wait, if it does not let everybody in
	eps      []*ucp.Endpoint
	failures map[*ucp.Endpoint]error
}

// hall lets a side listen. It accepts everybody, in his mode, unless wait says that
// requests are kept.
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

// admit accepts the first who waits, on a side of the same context.
func (h *listeningSide) admit(on *side) *ucp.Endpoint {
	h.rig.Helper()
	q := h.requests[0]
	h.requests = h.requests[1:]
	ep, err := on.NewEndpoint(ucp.EndpointParams{ConnRequest: q, ErrMode: q.ErrMode(), OnError: h.onError})
	if err != nil {
		if !errors.Is(err, ucs.ErrBusy) { // it is not being shut down
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

// dial connects to a listener.
func (s *side) dial(h *listeningSide, p ucp.EndpointParams) *ucp.Endpoint {
	s.rig.Helper()
	p.RemoteAddr = h.Listener.Addr()
	if p.OnError != nil && p.ErrMode == ucp.ErrModeNone {
		s.rig.log.Allow(neverCalled) // once a worker
	}
	ep, err := s.NewEndpoint(p)
	if err != nil {
		s.rig.Fatal(err)
	}
	return ep
}

// joined connects two sides and returns both ends, once each has sent the other something.
func (r *rig) joined(c *side, h *listeningSide, p ucp.EndpointParams) (there, back *ucp.Endpoint) {
	r.Helper()
	n := len(h.eps)
	there = c.dial(h, p)
	r.until("the server's end", func() bool { return len(h.eps) > n })
	back = h.eps[n]
	r.exchange(there, h.side, back, c)
	return there, back
}

// newConnRig skips what the machine does not have.
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

// openOneSided makes a worker with one-sided features, too.
func (r *rig) openOneSided(wp ucp.WorkerParams) *side {
	r.Helper()
	return r.openWith(ucp.ContextParams{Features: oneSided}, wp)
}

// onAlso makes another worker of a context.
func (s *side) onAlso() *side {
	s.rig.Helper()
	w, err := s.ctx.NewWorker(ucp.WorkerParams{ThreadMode: s.rig.mode})
	if err != nil {
		s.rig.Fatal(err)
	}
	o := &side{Worker: w, rig: s.rig, ctx: s.ctx, fd: -1, guest: true}
	s.rig.sides = append([]*side{o}, s.rig.sides...) // closed before its context
	return o
}

// isOneOf reports whether an error is of a status.
func isOneOf(err error, want ...ucs.Status) bool {
	return slices.ContainsFunc(want, func(s ucs.Status) bool { return errors.Is(err, s) })
}
