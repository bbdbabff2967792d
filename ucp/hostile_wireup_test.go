package ucp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// located is a connection whose peer a test places at an address, in a process and under a user.
type located struct {
	conn
	elsewhere bool
	from      netip.AddrPort
	holder    uct.Process // process at the other end; 0: any, unless elsewhere
	asked     int         // number of look-ups of the process
	paused    int
	uid       int      // user of the peer; 0: the user of the test
	look      func()   // called by each look-up, unless nil
	others    []uint16 // ports at which another user listens
	listeners int      // number of look-ups of the user that listens at a port
	tls       *tls.ConnectionState
}

func (l *located) SourceInfo() uct.SourceInfo {
	return uct.SourceInfo{Addr: l.from, Local: !l.elsewhere, TLS: l.tls, User: uct.PeerUser{Known: !l.elsewhere, UID: cmp.Or(l.uid, os.Geteuid())}}
}

func (l *located) SourceTLS() *tls.ConnectionState { return l.tls }

func (l *located) HeldBy(p uct.Process) bool {
	if l.asked++; l.look != nil {
		l.look()
	}
	return !l.elsewhere && (l.holder == 0 || l.holder == p)
}

func (l *located) MayListen(at netip.AddrPort) bool {
	if l.listeners++; l.look != nil {
		l.look()
	}
	return !slices.Contains(l.others, at.Port())
}

func (l *located) PauseSource()  { l.paused++ }
func (l *located) ResumeSource() { l.paused-- }

// newLocated returns a connection from an IP address and port, of this machine if here is set.
func newLocated(from string, here bool) *located {
	l := &located{elsewhere: !here, from: netip.MustParseAddrPort(from)}
	l.Owner = l
	return l
}

// TestRequestFromElsewhere: a peer on another machine cannot claim to be a process of
// this machine. Otherwise this process would read and write that process's memory for it.
func TestRequestFromElsewhere(t *testing.T) {
	for _, tls := range []string{"posix", "sysv", "posix,cma", "self"} {
		for _, kind := range []proto.WireupType{proto.WireupRequest, proto.WireupEpCheck} {
			for _, elsewhere := range []bool{false, true} {
				v := newTarget(t, "TLS", tls)
				from := &located{elsewhere: elsewhere}
				from.Owner = from
				m := v.stranger(0xABC, 0)
				m.Type = kind
				if kind == proto.WireupEpCheck {
					m.DstEp = 0xFFFF
				}
				b, err := m.Append(nil)
				if err != nil {
					t.Fatal(err)
				}
				before := v.stats.WireupSent
				if err := v.wireups.onWireup(&from.Source, b, nil); err != nil && !(elsewhere && errors.Is(err, ucs.ErrUnreachable)) {
					t.Fatal(err)
				}
				if answered := v.stats.WireupSent > before; answered == elsewhere {
					t.Errorf("%s: %v from another machine: %v, answered: %v", tls, kind, elsewhere, answered)
				}
				v.endpoints.Each(func(ep *Endpoint) {
					if ep != v.ep {
						ep.w.ends.destroy(ep, ucs.ErrCanceled)
					}
				})
			}
		}
	}
}

// TestNoWayBackLogged: requests that cannot be answered do not fill the log.
func TestNoWayBackLogged(t *testing.T) {
	v := newTarget(t)
	core, logs := observer.New(zapcore.WarnLevel)
	defer log.SetLogger(log.SetLogger(zap.New(core)))
	for k := range 100 {
		m := v.stranger(uint64(0xABC+k), 0)
		m.Address.Devices = nil
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.wireups.onWireup(nil, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	if logs.Len() != 1 || v.peers.Len() != 0 {
		t.Errorf("%d warnings, %d peers remembered", logs.Len(), v.peers.Len())
	}
}

// TestHostileWireup: unknown peers can open endpoints up to the limit, and nothing is
// remembered about the peers beyond it.
func TestHostileWireup(t *testing.T) {
	const limit = 10
	v := newTarget(t, "MAX_UNEXP_EPS", "10")
	request := func(uuid uint64, sn uint16, src proto.EndpointID) error {
		addr := v.own.described
		addr.UUID = uuid
		m := proto.Wireup{Type: proto.WireupRequest, ConnSN: sn, SrcEp: src, Address: addr}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.wireups.onWireup(nil, b, nil)
	}
	for i := range 1000 {
		err := request(uint64(0xABC000+i), uint16(i), proto.EndpointID(2*i+1))
		if (i < limit) != (err == nil) {
			t.Fatalf("stranger %d: %v", i, err)
		}
	}
	if v.peers.Len() != limit || v.wireups.unexpected != limit {
		t.Errorf("%d strangers are remembered, %d endpoints counted", v.peers.Len(), v.wireups.unexpected)
	}
	before := v.Stats().Endpoints
	for range 10 { // the same request again finds its endpoint
		if err := request(0xABC000, 0, 1); err != nil {
			t.Error(err)
		}
	}
	v.dropped("a request without an endpoint", request(0xABC000, 0, 0))
	if after := v.Stats().Endpoints; after != before {
		t.Errorf("%d endpoints, before %d", after, before)
	}
	v.endpoints.Each(func(ep *Endpoint) {
		if ep != v.ep {
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
		}
	})
	if v.wireups.unexpected != 0 || v.peers.Len() != 0 {
		t.Errorf("%d unexpected endpoints and %d peers are left", v.wireups.unexpected, v.peers.Len())
	}
	for i := range 2 * limit { // there is room again
		if err := request(uint64(0xDEF000+i), 0, 1); (i < limit) != (err == nil) {
			t.Fatalf("stranger %d: %v", i, err)
		}
	}
	v.exchange()
}

// TestHostileWireupTypes: wireup messages of unknown types, and for endpoints that do
// not exist, do nothing.
func TestHostileWireupTypes(t *testing.T) {
	v := newTarget(t)
	for kind := range 256 {
		m := proto.Wireup{Type: proto.WireupType(kind), SrcEp: 5, DstEp: 0xFFFF, Address: v.own.emptyAddress()}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.wireups.onWireup(nil, b, nil); err != nil && !errors.Is(err, ucs.ErrIO) {
			t.Errorf("type %d: %v", kind, err)
		}
	}
	for range 1000 {
		v.Progress()
	}
	if v.ep.err != nil || v.Stats().Endpoints != 1 {
		t.Errorf("endpoint %v, counters %+v", v.ep.err, v.Stats())
	}
	v.exchange()
}

// TestEpCheck: a peer that checks an endpoint which is gone is notified, and its own
// endpoint fails with ErrConnectionReset. If the endpoint exists, nothing happens.
func TestEpCheck(t *testing.T) {
	v := newTarget(t)
	p := EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback}
	ep, err := v.NewEndpoint(p)
	if err != nil {
		t.Fatal(err)
	}
	check := func(dst proto.EndpointID) {
		m := proto.Wireup{Type: proto.WireupEpCheck, SrcEp: ep.localID, DstEp: dst, Address: v.own.described}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.wireups.onWireup(nil, b, nil); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			v.Progress()
		}
	}
	check(v.ep.localID)
	if ep.err != nil {
		t.Fatal(ep.err)
	}
	check(0x77777777)
	if !errors.Is(ep.err, ucs.ErrConnectionReset) {
		t.Errorf("the endpoint's error is %v", ep.err)
	}
	if n := v.Stats().Endpoints; n != 2 || v.wireups.unexpected != 0 {
		t.Errorf("%d endpoints, %d of them opened by peers", n, v.wireups.unexpected)
	}
	v.exchange()
}
