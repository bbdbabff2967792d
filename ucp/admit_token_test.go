package ucp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/admit"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// requesterWorker is a peer of a worker with a token. Tests make its messages by hand.
type requesterWorker struct {
	*targetWorker
	addr  proto.WorkerAddress
	token proto.Token // the token that its proofs are made with
}

// newAsker returns a worker with a token, and a peer that has its address. The peer names the
// address of another worker as its own.
func newAsker(t testing.TB, settings ...string) (*targetWorker, *requesterWorker) {
	t.Helper()
	return newAskerOver(t, "tcp", settings...)
}

// newAskerOver is newAsker with these transports on both sides.
func newAskerOver(t testing.TB, tls string, settings ...string) (*targetWorker, *requesterWorker) {
	t.Helper()
	v := newTarget(t, append([]string{"TLS", tls, "NET_DEVICES", "lo", "TOKEN", "y"}, settings...)...)
	peer := newTarget(t, "TLS", tls, "NET_DEVICES", "lo")
	peer.log.Allow("request without the token refused") // at most one a minute
	peer.log.Allow("request of an unknown peer refused")
	addr, _, err := proto.ParseAddress(v.Worker.own.address, proto.FormWorker)
	if err != nil || addr.Token == nil {
		t.Fatalf("address of a worker with a token: %v, token %v", err, addr.Token)
	}
	return v, &requesterWorker{targetWorker: peer, addr: peer.own.described, token: *addr.Token}
}

// request returns a packed request or endpoint check of a worker with the uuid.
func (a *requesterWorker) request(kind proto.WireupType, uuid uint64, id proto.EndpointID) []byte {
	a.Helper()
	addr := a.addr.Clone()
	addr.UUID = uuid
	m := proto.Wireup{Type: kind, ConnSN: proto.ConnSNNone, SrcEp: id, Address: *addr}
	if kind == proto.WireupEpCheck {
		m.DstEp = 0x7777
	}
	b, err := m.Append(nil)
	if err != nil {
		a.Fatal(err)
	}
	return b
}

// proof returns the packed proof of a message from the worker uuid to the worker to.
func (a *requesterWorker) proof(to, uuid uint64, message []byte) []byte {
	return a.token.Prove(to, uuid, message).Append(nil)
}

// sourceOr returns the source of a connection for handlers, nil for no connection.
func sourceOr(by *located) *uct.Source {
	if by == nil {
		return nil
	}
	return &by.Source
}

// TestToken: a request with a valid proof is served. A request without one leaves nothing behind
// but a count, on connections and in shared memory.
func TestToken(t *testing.T) {
	for _, where := range []string{"connection", "shared memory"} {
		for _, kind := range []proto.WireupType{proto.WireupRequest, proto.WireupEpCheck} {
			t.Run(fmt.Sprint(where, " ", kind), func(t *testing.T) { testToken(t, kind, where == "connection") })
		}
	}
}

func testToken(t *testing.T, kind proto.WireupType, connected bool) {
	v, a := newAsker(t)
	by := func() *located {
		if connected {
			return newLocated(loop, true)
		}
		return nil
	}
	id := proto.EndpointID(0x11)
	type part struct {
		by    *located
		bytes []byte // a packed proof or request
		proof bool
	}
	try := func(what string, served int, parts ...part) {
		t.Helper()
		before, reasons := v.stats, ledger.Refusals(ledger.Token)
		peers, endpoints := v.peers.Len(), v.endpoints.Len()
		ok, refused := 0, 0
		for _, p := range parts {
			if p.proof {
				if err := v.admission.onToken(sourceOr(p.by), p.bytes, nil); err != nil {
					t.Errorf("%s: proof: %v", what, err)
				}
				continue
			}
			switch err := v.wireups.onWireup(sourceOr(p.by), p.bytes, nil); {
			case err == nil:
				ok++
			case errors.Is(err, ucs.ErrRejected):
				refused++
			default:
				t.Errorf("%s: %v", what, err)
			}
		}
		if ok != served || v.stats.Refused != before.Refused+uint64(refused) || ledger.Refusals(ledger.Token) != reasons+uint64(refused) {
			t.Errorf("%s: %d served, want %d; %d refused, %d counted", what, ok, served, refused, v.stats.Refused-before.Refused)
		}
		if got := v.stats.WireupSent - before.WireupSent; got != uint64(served) {
			t.Errorf("%s: %d answers, want %d", what, got, served)
		}
		if served == 0 && (v.toward(id) != nil || v.peers.Len() != peers || v.endpoints.Len() != endpoints) {
			t.Errorf("%s: something was made", what)
		}
		for ep := v.toward(id); ep != nil; ep = v.toward(id) {
			ep.w.ends.destroy(ep, ucs.ErrCanceled)
		}
		v.admission.gate.Tokens = admit.Tokens{Secret: v.admission.gate.Tokens.Secret, Worker: v.uuid} // forgets the proofs
	}

	uuid := a.uuid
	right := func(by *located) []part {
		r := a.request(kind, uuid, id)
		return []part{{by, a.proof(v.uuid, uuid, r), true}, {by, r, false}}
	}
	request := a.request(kind, uuid, id)
	one := by()
	try("proved", 1, right(one)...)
	try("proved, again", 1, right(one)...)
	try("the proof of before", 0, part{one, request, false})
	try("no proof", 0, part{by(), request, false})
	try("twice the proof", 1, right(one)[0], right(one)[0], part{one, request, false})
	one = by()
	try("a proof behind the request", 0, part{one, request, false}, right(one)[0])
	one = by()
	try("the proof of another message", 0, part{one, a.proof(v.uuid, uuid, a.request(kind, uuid, id+2)), true}, part{one, request, false})
	try("the proof for another worker", 0, part{one, a.proof(v.uuid+1, uuid, request), true}, part{one, request, false})
	try("another peer's proof", 0, part{one, a.proof(v.uuid, uuid+1, request), true}, part{one, request, false})
	replay := a.request(kind, uuid, id)
	stolen := a.request(kind, uuid+5, id)
	try("a proof that was heard, with another uuid", 0, part{one, a.proof(v.uuid, uuid, replay), true}, part{one, stolen, false})
	try("zeros", 0, part{one, proto.TokenProof{}.Append(nil), true}, part{one, request, false})
	if connected {
		try("the proof by another connection", 0, part{by(), right(nil)[0].bytes, true}, part{by(), request, false})
		try("a wrong proof behind the right one", 0, right(one)[0], part{one, proto.TokenProof{}.Append(nil), true}, part{one, request, false})
	} else {
		other := a.request(kind, uuid, id) // all peers write into one ring
		try("proofs of several", 2,
			part{one, a.proof(v.uuid, uuid, request), true}, part{one, proto.TokenProof{}.Append(nil), true},
			part{one, a.proof(v.uuid, uuid, other), true}, part{one, request, false}, part{one, other, false})
		for range 10_000 {
			if err := v.admission.onToken(nil, proto.TokenProof{}.Append(nil), nil); err != nil {
				t.Fatal(err)
			}
		}
		try("proved, behind many", 1, right(one)...)
	}

	right32 := a.token
	a.token.Key[0] ^= 1
	try("another token", 0, right(by())...)
	a.token = right32.KeyOf(v.uuid, uuid)
	try("the key of this peer", 1, right(by())...)
	a.token = right32.KeyOf(v.uuid, uuid+1)
	try("the key of another peer", 0, right(by())...)
	a.token = right32

	for what, b := range map[string][]byte{
		"nothing": nil, "a byte": {1}, "short": a.proof(1, 2, nil)[:32], "long": append(a.proof(1, 2, nil), 0),
		"of another form": append([]byte{2}, a.proof(1, 2, nil)[1:]...),
	} {
		v.refused("a proof that is "+what, v.admission.onToken(sourceOr(by()), b, nil))
	}
	v.stats.Malformed = 0
	try("proved, at last", 1, right(by())...)
}

// TestTokenNotNeeded: an endpoint check that needs no answer uses up its proof as well.
func TestTokenNotNeeded(t *testing.T) {
	for _, connected := range []bool{false, true} {
		v, a := newAsker(t)
		var by *located
		if connected {
			by = newLocated(loop, true)
		}
		m := proto.Wireup{Type: proto.WireupEpCheck, SrcEp: peersID, DstEp: v.ep.localID, Address: a.own.emptyAddress()}
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := v.admission.onToken(sourceOr(by), a.proof(v.uuid, a.uuid, b), nil); err != nil {
				t.Fatal(err)
			}
			if err := v.wireups.onWireup(sourceOr(by), b, nil); err != nil {
				t.Fatal(err)
			}
		}
		if v.admission.gate.Tokens.Verify(v.accounts.sourceOf(sourceOr(by)).tokenProof(), a.uuid, b) {
			t.Errorf("connected %v: the proof is left", connected)
		}
	}
}

// TestTokenBygone: a worker to which the application had an endpoint learns through shared memory
// that the endpoint is gone, also without a proof, which C UCX cannot send. It gets nothing else in
// this way, and a proof that it has sent is used up.
func TestTokenBygone(t *testing.T) {
	v, a := newAskerOver(t, "tcp,posix")
	ask := func(by *located, kind proto.WireupType, uuid uint64, want bool) {
		t.Helper()
		before := v.stats.WireupSent
		err := v.wireups.onWireup(sourceOr(by), a.request(kind, uuid, peersID), nil)
		if (err == nil) != want || (v.stats.WireupSent > before) != want || err != nil && !errors.Is(err, ucs.ErrRejected) {
			t.Errorf("%v of %x by %v: %v, answered: %v", kind, uuid, by, err, v.stats.WireupSent > before)
		}
	}
	if err := v.Allow(a.Worker.own.address); err != nil {
		t.Fatal(err)
	}
	ask(nil, proto.WireupEpCheck, a.uuid, false) // there was no endpoint
	if err := v.Disallow(a.Worker.own.address); err != nil {
		t.Fatal(err)
	}
	ep, err := v.NewEndpoint(EndpointParams{Address: a.Worker.own.address})
	if err != nil {
		t.Fatal(err)
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
	ask(nil, proto.WireupEpCheck, a.uuid, true)
	ask(nil, proto.WireupEpCheck, a.uuid+1, false)
	ask(nil, proto.WireupRequest, a.uuid, false)
	ask(newLocated(loop, true), proto.WireupEpCheck, a.uuid, false)
	check := a.request(proto.WireupEpCheck, a.uuid, peersID)
	if err := v.admission.onToken(nil, a.proof(v.uuid, a.uuid, check), nil); err != nil {
		t.Fatal(err)
	}
	if err := v.wireups.onWireup(nil, check, nil); err != nil || v.admission.gate.Tokens.Verify(nil, a.uuid, check) {
		t.Errorf("with the proof: %v, or the proof is left", err)
	}

	// A check without a proof is not answered at an address outside this machine.
	v.log.Allow("no reverse path to a peer")
	a.addr.Devices = slices.DeleteFunc(a.addr.Devices, func(d proto.AddressDevice) bool { return d.Ifaces[0].Transport != proto.TransportTCP })
	before := v.stats.WireupSent
	if err := v.wireups.onWireup(nil, a.request(proto.WireupEpCheck, a.uuid, peersID), nil); err != nil || v.stats.WireupSent != before {
		t.Errorf("a question through memory is answered over the network: %v", err)
	}
}

// TestTokenModes checks which peers are served in which token mode, with and without a proof, and
// in closed mode.
func TestTokenModes(t *testing.T) {
	const stranger, allowed = false, true
	for _, c := range []struct {
		param           TokenMode
		setting, closed string
		known           bool
		without, with   bool // whether the peer is served
	}{
		{TokenOff, "n", "n", stranger, true, true},
		{TokenOrKnown, "n", "n", stranger, false, true},
		{TokenOrKnown, "n", "n", allowed, true, true},
		{TokenRequired, "n", "n", stranger, false, true},
		{TokenRequired, "n", "n", allowed, false, true},
		{TokenOff, "known", "n", stranger, false, true},
		{TokenOff, "known", "n", allowed, true, true},
		{TokenOff, "y", "n", allowed, false, true},
		{TokenOrKnown, "y", "n", allowed, false, true},
		{TokenRequired, "known", "n", allowed, false, true},
		{TokenOff, "n", "y", stranger, false, false},
		{TokenOrKnown, "n", "y", stranger, false, false},
		{TokenOrKnown, "n", "y", allowed, true, true},
		{TokenRequired, "n", "y", stranger, false, false},
		{TokenRequired, "n", "y", allowed, false, true},
	} {
		v, a := newAsker(t)
		ctx := targetContext(t, "TLS", "tcp", "NET_DEVICES", "lo", "TOKEN", c.setting, "CLOSED", c.closed)
		w, err := ctx.NewWorker(WorkerParams{Token: c.param})
		if err != nil {
			t.Fatal(err)
		}
		v = &targetWorker{TB: t, Worker: w, log: v.log}
		addr, _, err := proto.ParseAddress(w.own.address, proto.FormWorker)
		if err != nil || (addr.Token != nil) != (c.param != TokenOff || c.setting != "n") {
			t.Fatalf("%+v: token %v, %v", c, addr.Token, err)
		}
		if c.known {
			if err := w.Allow(a.Worker.own.address); err != nil {
				t.Fatal(err)
			}
		}
		for k, want := range []bool{c.without, c.with} {
			by := newLocated(loop, true)
			request := a.request(proto.WireupRequest, a.uuid, proto.EndpointID(2*k+1))
			if k == 1 && addr.Token != nil {
				a.token = *addr.Token
				if err := v.admission.onToken(&by.Source, a.proof(w.uuid, a.uuid, request), nil); err != nil {
					t.Error(err)
				}
			}
			err := v.wireups.onWireup(&by.Source, request, nil)
			if (err == nil) != want || (v.toward(proto.EndpointID(2*k+1)) != nil) != want {
				t.Errorf("%+v: with the proof: %v: %v", c, k == 1, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTokenUnseen: a worker's secret is in the address that the application gets, complete or with
// AddressNetOnly. Requests contain only a key for one peer.
func TestTokenUnseen(t *testing.T) {
	v, a := newAsker(t)
	secret := v.admission.gate.Tokens.Secret.Key[:]
	for _, flags := range []AddressFlags{0, AddressNetOnly} {
		addr, err := v.Address(flags)
		if err != nil || !bytes.Contains(addr, secret) {
			t.Errorf("flags %d: %v, without the token", flags, err)
		}
	}
	if bytes.Equal(secret, make([]byte, len(secret))) {
		t.Error("the secret is not random")
	}
	other, _ := newAsker(t)
	if bytes.Equal(secret, other.admission.gate.Tokens.Secret.Key[:]) {
		t.Error("two workers have one secret")
	}
	key := v.admission.gate.Tokens.KeyFor(a.uuid)
	if key.Kind != proto.TokenKey || bytes.Equal(key.Key[:], secret) || *key == *v.admission.gate.Tokens.KeyFor(a.uuid + 1) {
		t.Error("what requests carry is not of one peer")
	}
	if v.own.described.Token != nil || a.admission.gate.Tokens.KeyFor(v.uuid) != nil || a.own.described.Token != nil {
		t.Error("a token where none belongs")
	}
}

// TestTokenBound: the refusal of a peer without a proof makes no system calls for the peer's
// address, and leaves no memory in use.
func TestTokenBound(t *testing.T) {
	v, a := newAsker(t, "TLS", "tcp,posix")
	by := newLocated(loop, true)
	request := a.request(proto.WireupRequest, a.uuid, 3)
	for range 100 {
		if err := v.wireups.onWireup(&by.Source, request, nil); !errors.Is(err, ucs.ErrRejected) {
			t.Fatal(err)
		}
	}
	if by.asked != 0 || v.stats.WireupSent != 0 || v.peers.Len() != 0 || v.wireups.unexpected != 0 {
		t.Errorf("asked the kernel %d times, %d answers, %d peers", by.asked, v.stats.WireupSent, v.peers.Len())
	}
	by.Gone()
	if n := v.Stats().Sources; n > 1 {
		t.Errorf("%d sources are remembered", n)
	}
}

func TestTokenMode(t *testing.T) {
	for text, want := range map[string]string{"n": "n", "No": "n", "0": "n", "off": "n", " known ": "known", "y": "y", "YES": "y", "on": "y", "1": "y"} {
		var s tokenSetting
		if err := s.ParseConfig(text); err != nil || s.String() != want {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	var s tokenSetting
	if err := s.ParseConfig("maybe"); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("maybe: %v", err)
	}
	if got := TokenMode(7).String(); got != "token mode 7" {
		t.Error(got)
	}
	ctx := targetContext(t)
	defer ctx.Close()
	if _, err := ctx.NewWorker(WorkerParams{Token: 7}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("an unknown mode: %v", err)
	}
}

// FuzzToken: without the secret, no proof or request opens an endpoint or gets an answer, and none
// makes the worker panic.
func FuzzToken(f *testing.F) {
	was := log.SetLogger(zap.NewNop())
	f.Cleanup(func() { log.SetLogger(was) })
	ctx := targetContext(f, "TLS", "tcp", "NET_DEVICES", "lo", "TOKEN", "y")
	w := openTarget(f, ctx)
	f.Cleanup(func() {
		w.Close()
		ctx.Close()
	})
	v := newTargetOf(f, w, nil)
	a := &requesterWorker{targetWorker: v, addr: v.own.described, token: proto.Token{Kind: proto.TokenSecret}}
	request := a.request(proto.WireupRequest, 5, 1)
	f.Add(a.proof(w.uuid, 5, request), request, true)
	f.Add(make([]byte, proto.TokenProofSize), a.request(proto.WireupEpCheck, 5, 1), false)
	f.Add([]byte{1}, request[:20], false)
	f.Add([]byte{}, []byte{}, true)
	fuzztest.Run(f, func(t *testing.T, proof, request []byte, connected bool) {
		var by *located
		if connected {
			by = newLocated("192.0.2.1:1", false)
		}
		before := v.stats.WireupSent
		v.admission.onToken(sourceOr(by), proof, nil)
		v.wireups.onWireup(sourceOr(by), request, nil)
		v.admission.onToken(sourceOr(by), request, nil)
		if v.endpoints.Len() != 1 || v.peers.Len() != 0 || v.stats.WireupSent != before {
			t.Fatal("something was made without the token")
		}
		if by != nil {
			by.Gone()
		}
	})
}
