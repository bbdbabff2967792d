//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
)

// withTokens are the transports of tests with tokens: every kind, and one whose requests go over
// another lane than messages.
func withTokens(t testing.TB) (list []transport) {
	for _, name := range []string{"self", "tcp", "tls", "posix", "sysv", "posix and cma", "a small ring", simPlain.name, simLanes.name, simLanesStorm.name} {
		list = append(list, byName(t, name).with(setting{"TOKEN", "y"}).showing()) // in all groups
	}
	return list
}

// TestTokens checks that tokens have no effect on peers of this library, whichever side connects
// first.
func TestTokens(t *testing.T) {
	runGroups(t, withTokens(t), []caseGroup{
		{"wireup", wireupCases},
		{"addresses", readdressCases},
		{"close", closeCases},
		{"tokens", []testCase{
			{"both sides have one, one side, and everybody else none", twoSides, testTokenSides},
			{"addresses without the token, or with another", twoSides, testTokenWrong},
			{"who was closed upon is told", twoSides | watchful, testTokenRemoved},
		}},
	})
}

// testTokenSides checks that operations that need the peer's id work in both directions, and over
// the endpoint that the peer has opened, whichever side has a token.
func testTokenSides(t *testing.T, tr transport) {
	for _, modes := range [][2]ucp.TokenMode{
		{ucp.TokenRequired, ucp.TokenRequired}, {ucp.TokenRequired, ucp.TokenOff}, {ucp.TokenOff, ucp.TokenRequired},
		{ucp.TokenOrKnown, ucp.TokenRequired},
	} {
		r := newRig(t, tr.with(setting{"TOKEN", "n"}))
		var s [2]*side
		for k := range s {
			s[k] = r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{Token: modes[k]})
			if has := r.parsed(s[k].address()).Token != nil; has != (modes[k] != ucp.TokenOff) {
				t.Fatalf("%v: a token in the address: %v", modes[k], has)
			}
		}
		there := s[0].connect(s[1])
		r.warm(there, s[1])
		back := s[1].connect(s[0])
		r.exchange(there, s[1], back, s[0])
		r.sendAndTake(there, s[1], 3, message(300_000))
		r.sendAndTake(back, s[0], 3, message(300_000))
		r.endpoints(1, s[:]...)
		r.exchange(s[1].connect(s[0]), s[0], s[0].connect(s[1]), s[1])
		r.endpoints(2, s[:]...)
		for k := range s {
			if n := s[k].Stats().Refused; n != 0 {
				t.Errorf("%v: side %d has refused %d", modes, k, n)
			}
		}
	}
}

// testTokenWrong checks that a peer that has not got the address from the worker is refused, that
// it fails if there is a connection to drop, and that other peers go on.
func testTokenWrong(t *testing.T, tr transport) {
	r := newRig(t, tr)
	r.log.Allow("request without the token refused")
	r.log.Allow("dropped") // by transports that cannot drop a connection
	b, good := r.open(), r.open()
	there := good.connect(b)
	r.warm(there, b)
	for what, edit := range map[string]func(a *proto.WorkerAddress){
		"none":       func(a *proto.WorkerAddress) { a.Token = nil },
		"wrong":      func(a *proto.WorkerAddress) { a.Token.Key[5] ^= 1 },
		"a's as b's": func(a *proto.WorkerAddress) { a.Token = r.parsed(good.address()).Token },
		"of another": func(a *proto.WorkerAddress) { k := a.Token.KeyOf(a.UUID, 7); a.Token = &k },
	} {
		a := r.open()
		addr := r.parsed(b.address())
		edit(addr)
		packed, err := addr.Append(nil, proto.FormWorker)
		if err != nil {
			t.Fatal(err)
		}
		failed := false
		ep, err := a.NewEndpoint(ucp.EndpointParams{Address: packed, ErrMode: tr.peerMode(),
			OnError: func(*ucp.Endpoint, error, any) { failed = true }})
		if err != nil {
			t.Fatal(err)
		}
		before := b.Stats()
		req := r.started(ep.TagSendSync(warmTag, nil, nil))
		r.until("refusal", func() bool { return b.Stats().Refused > before.Refused })
		connected := r.parsed(b.address()).Devices[0].Ifaces[0].Transport
		if connected == proto.TransportTCP || connected == proto.TransportIDOf("tls") {
			r.until("failure", func() bool { return failed && req.Done() })
		}
		if b.Stats().Endpoints != before.Endpoints || b.Stats().WireupSent != before.WireupSent {
			t.Errorf("%s: something was made", what)
		}
		req.Free()
		a.close()
		r.sides = r.sides[:len(r.sides)-1]
		r.warm(there, b)
	}
}

// testTokenRemoved checks that a peer that asks for an endpoint that has ended is notified, even if
// it knows the other side only by a request of it.
func testTokenRemoved(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	there := a.connectWith(b, ucp.EndpointParams{ErrMode: tr.peerMode()})
	r.warm(there, b)
	r.endpoints(1, b)
	r.must(there.CloseAsync(&ucp.RequestParams{CloseFlags: ucp.CloseForce}))
	r.until("the other end", func() bool { return b.Stats().Endpoints == 0 || a.Stats().Refused > 0 })
	if n := a.Stats().Refused; n != 0 {
		t.Errorf("%d questions were refused", n)
	}
}
