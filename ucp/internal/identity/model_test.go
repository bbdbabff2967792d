package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/admit"
)

// The model is a worker with endpoints to the peers of a few uuids, to which random things happen.
// After every step the table must agree with plain lists of what has happened.

// end is an endpoint of the model.
type end struct {
	number      uint16
	remote      proto.EndpointID
	unconfirmed bool
	claimed     bool
	failed      bool
	peer        *Peer[*end]
}

func (e *end) Number() uint16                        { return e.number }
func (e *end) Counterpart() (proto.EndpointID, bool) { return e.remote, !e.unconfirmed }
func (e *end) Claimed() bool                         { return e.claimed }
func (e *end) Failed() bool                          { return e.failed }

// link is a connection of the model.
type link struct {
	owner       Owner[*end]
	certificate *admit.Certificate
	memory      bool // of this process
	ended       bool
	endedOf     *Peer[*end] // its peer when it ended; a peer that this one is merged into later may keep it
}

func (l *link) Certificate() (*admit.Certificate, bool) { return l.certificate, !l.memory }

// worker is the model of a worker.
type worker struct {
	Table[*end]
	ends    []*end
	allowed []*Peer[*end]
	links   []*link
	numbers map[uint64]uint16 // the next number of each uuid
	count   map[string]int
	moved   int
}

func newWorker() *worker {
	w := &worker{numbers: make(map[uint64]uint16), count: make(map[string]int)}
	w.Init(func(e *end, p *Peer[*end]) {
		if e.peer != nil {
			w.moved++
		}
		e.peer = p
	})
	for k := range 4 {
		w.links = append(w.links, &link{memory: k == 3})
	}
	return w
}

// addressOf returns an address with a uuid and entries made of the numbers at.
func addressOf(uuid uint64, at ...byte) *proto.WorkerAddress {
	a := &proto.WorkerAddress{UUID: uuid, Flags: proto.AddressHasUUID}
	for _, k := range at {
		a.Devices = append(a.Devices, proto.AddressDevice{Addr: []byte{k}, Ifaces: []proto.AddressIface{{Transport: 7, Addr: []byte{k}}}})
	}
	return a
}

// step performs one random action.
func (w *worker) step(t *rapid.T) {
	uuid := uint64(1 + rapid.IntRange(0, 1).Draw(t, "uuid"))
	addr := addressOf(uuid, rapid.SliceOfN(rapid.ByteRange(0, 4), 1, 3).Draw(t, "entries")...)
	id := proto.EndpointID(1 + rapid.IntRange(0, 6).Draw(t, "id"))
	place := rapid.IntRange(0, len(w.links)-1).Draw(t, "link")
	from := w.links[place]
	var e *end
	if len(w.ends) > 0 {
		e = w.ends[rapid.IntRange(0, len(w.ends)-1).Draw(t, "endpoint")]
	}
	switch rapid.IntRange(0, 10).Draw(t, "action") {
	case 0, 1: // the application makes an endpoint
		w.create(t, addr, rapid.IntRange(0, 9).Draw(t, "fails") == 0)
	case 2, 3, 4: // a peer requests an endpoint
		w.request(t, from, addr, uint16(rapid.IntRange(0, 3).Draw(t, "number")), id)
	case 5: // an endpoint is closed
		if e != nil {
			w.close(e)
		}
	case 6: // a peer sends its endpoint's id, or the endpoint fails
		if e != nil {
			e.failed = e.failed || rapid.IntRange(0, 3).Draw(t, "fails") == 0
		}
		if e != nil && (e.remote == 0 || e.unconfirmed) {
			e.remote, e.unconfirmed = id, rapid.Bool().Draw(t, "guessed")
			if !e.unconfirmed {
				e.peer.DropUnmatched(e)
			}
		}
	case 7:
		p := w.given(t, addr)
		p.Allowed = true
		if !slices.Contains(w.allowed, p) {
			w.allowed = append(w.allowed, p)
		}
	case 8:
		if p := w.Find(uuid, EntriesOf(addr)); p != nil && p.Allowed {
			p.Allowed = false
			w.Release(p)
			w.allowed = slices.DeleteFunc(w.allowed, func(q *Peer[*end]) bool { return q == p })
		}
	case 9: // another connection
		from.ended = true
		from.endedOf = from.owner.Peer()
		from.owner.SetEnded(from)
		from = &link{memory: from.memory}
		w.links[place] = from
		if rapid.Bool().Draw(t, "certified") && !from.memory {
			from.certificate = &admit.Certificate{byte(rapid.IntRange(1, 2).Draw(t, "certificate"))}
		}
	case 10: // a message that names an endpoint
		if e != nil && !from.memory {
			w.name(t, from, e.peer.Canonical(), rapid.Bool().Draw(t, "from there"))
		}
	}
}

// given returns the peer of an address that the application passes. Peers that have claimed other
// entries besides that address stay separate.
func (w *worker) given(t *rapid.T, addr *proto.WorkerAddress) *Peer[*end] {
	var apart []*Peer[*end]
	if k := w.byUUID[addr.UUID]; k != nil {
		for _, p := range k.peers {
			if !p.Trusted() && !Contains(EntriesOf(addr), p.entries) {
				apart = append(apart, p)
			}
		}
	}
	p := w.Given(addr)
	for _, q := range apart {
		if q.Canonical() == p {
			t.Fatalf("a peer with the entries %v is taken for that of %v", q.entries, EntriesOf(addr))
		}
	}
	if len(apart) > 0 {
		w.count["apart"]++
	}
	return p
}

// create models the application's NewEndpoint.
func (w *worker) create(t *rapid.T, addr *proto.WorkerAddress, fails bool) {
	p := w.given(t, addr)
	if !Contains(p.entries, EntriesOf(addr)) || p.Address() == nil {
		t.Fatalf("the peer of %v has the entries %v", EntriesOf(addr), p.entries)
	}
	n := p.TakeNumber()
	if n != w.numbers[addr.UUID] {
		t.Fatalf("number %d, want %d", n, w.numbers[addr.UUID])
	}
	e, ok := p.Claim(n, func(*end) bool { return !fails })
	switch {
	case ok:
		if _, waits := p.Unmatched(n); waits || fails || e.claimed || e.number != n || e.peer.Canonical() != p || p.contested {
			t.Fatalf("the application is given %+v", e)
		}
		w.count["claimed"]++
		e.claimed = true
	case fails:
		p.ReturnNumber(n)
		w.Release(p)
		w.allowedStay(t, p)
		return
	default:
		e = &end{number: n, claimed: true}
		w.Add(e, p)
		w.ends = append(w.ends, e)
		p.AddUnmatched(e)
	}
	w.numbers[addr.UUID]++
	p.Given = true
}

// request models a wireup request.
func (w *worker) request(t *rapid.T, from *link, addr *proto.WorkerAddress, n uint16, id proto.EndpointID) {
	p := w.Find(addr.UUID, EntriesOf(addr))
	if p != nil {
		first, proven := p.certificate(), p.ProvenBy(from)
		if want := first == nil || from.memory || from.certificate != nil && *from.certificate == *first; proven != want {
			t.Fatalf("a peer with the certificate %v is proven by %v: %v", first, from.certificate, proven)
		}
	}
	if p != nil && !p.ProvenBy(from) {
		w.count["not proven"]++
		p = nil
	}
	var waits *end
	if p != nil {
		waits, _ = p.Unmatched(n)
	}
	v, e := p.Match(n, id)
	w.count[fmt.Sprint("verdict ", v)]++
	want := w.want(p, waits, n, id)
	right := e == nil
	switch {
	case want == Repeated && waits == nil:
		right = e != nil && e.connectedWith(p, id) && e.number == n
	case want == Pair, want == Repeated:
		right = e == waits
	}
	if v != want || !right {
		t.Fatalf("verdict %d, %+v, want %d, %+v", v, e, want, waits)
	}
	if v == Contested && !p.Contested() {
		t.Fatal("the peer is not contested")
	}
	switch v {
	case Open, Contested:
		if p == nil {
			p = w.NewUntrusted(addr)
		}
		e := &end{number: n, remote: id}
		if !from.memory {
			w.bind(t, from, p)
			p = p.Canonical()
		}
		w.Add(e, p)
		w.ends = append(w.ends, e)
		if _, taken := p.Unmatched(n); !taken {
			p.AddUnmatched(e)
		}
	case Pair:
		if !from.memory {
			w.bind(t, from, p)
		}
		e.remote, e.unconfirmed = id, false
		if e.claimed {
			e.peer.DropUnmatched(e)
		}
	}
}

// connectedWith reports whether an endpoint of the application is connected with an end of a peer.
func (e *end) connectedWith(p *Peer[*end], id proto.EndpointID) bool {
	return e.peer.Canonical() == p && e.remote == id && !e.unconfirmed && e.claimed
}

// want returns the verdict that the table of the package comment gives.
func (w *worker) want(p *Peer[*end], waits *end, n uint16, id proto.EndpointID) Verdict {
	switch {
	case p == nil:
		return Open
	case waits == nil:
		with := func(more func(*end) bool) bool {
			return slices.ContainsFunc(w.ends, func(e *end) bool { return e.connectedWith(p, id) && more(e) })
		}
		switch {
		case n != proto.ConnSNNone && with(func(e *end) bool { return e.number == n }):
			return Repeated
		case with(func(e *end) bool { return !e.failed }):
			return Connected
		}
		return Open
	case waits.remote == 0, waits.unconfirmed:
		return Pair
	case waits.remote == id:
		return Repeated
	}
	return Contested
}

// bind models a wireup message of a peer on a connection.
func (w *worker) bind(t *rapid.T, from *link, p *Peer[*end]) {
	q, first := from.owner.Peer(), p.certificate()
	if from.owner.Forgotten(p) {
		if len(q.endpoints) > 0 || from.owner.IsOther(p) {
			t.Fatalf("%+v is forgotten, or another peer", q)
		}
		w.count["forgotten"]++
		q = nil
	}
	moved := w.moved
	from.owner.Bind(&w.Table, p, from)
	now := from.owner.Peer()
	switch {
	case q == nil && now != p:
		t.Fatal("a connection without a peer does not belong to the first that is identified")
	case q != nil && q.UUID() != p.UUID() && (now != q || w.moved != moved):
		t.Fatal("the connection changes to another uuid")
	case q != nil && q != p && q.UUID() == p.UUID() && q.Trusted() && p.Trusted() && (now != q || p.mergedInto != nil):
		t.Fatal("peers that the application tells apart are merged")
	case q != nil && q.UUID() == p.UUID() && !(q.Trusted() && p.Trusted()) && (q.Canonical() != p.Canonical() || now != p.Canonical()):
		t.Fatal("peers of one connection are not merged")
	case (p.Trusted() || q != nil && q.UUID() == p.UUID() && q.Trusted()) && !p.Canonical().Trusted():
		t.Fatal("a trusted peer is merged into an untrusted one")
	case first != nil && p.Canonical() == p && p.certificate() != first:
		t.Fatal("the first certificate is not kept")
	}
	if q != nil && q != p && now == p.Canonical() && q.UUID() == p.UUID() {
		w.count["merged by a connection"]++
	}
	if p.Canonical().LastSource != from {
		t.Fatal("the connection is not the peer's last")
	}
	if c := from.certificate; c != nil && p.Canonical().certificate() == nil {
		t.Fatal("the certificate is not kept")
	}
}

// name models a message that names an endpoint of p.
func (w *worker) name(t *rapid.T, from *link, p *Peer[*end], there bool) {
	q := from.owner.Peer()
	if want := q != nil && q != p && !from.owner.Forgotten(p) && (q.UUID() != p.UUID() || q.Trusted() && p.Trusted()); from.owner.IsOther(p) != want {
		t.Fatalf("%+v is another peer than %+v: %v", q, p, !want)
	}
	if from.owner.IsOther(p) && q.UUID() == p.UUID() {
		w.count["another of the uuid"]++
	}
	switch {
	case from.owner.Is(p), from.owner.Peer() == p:
		if from.owner.IsOther(p) || !from.owner.Decided() {
			t.Fatal("a connection does not belong to its peer")
		}
	case from.owner.Decided() && !from.owner.Forgotten(p):
		if from.owner.Peer() == nil {
			w.count["unknown again"]++
		}
	case there:
		from.owner.Set(p)
	default:
		from.owner.SetUnknown()
		if q == nil && from.owner.Peer() != nil || from.owner.IsOther(p) || from.owner.Is(p) {
			t.Fatal("an unknown owner is a peer")
		}
	}
}

func (w *worker) close(e *end) {
	p := e.peer.Canonical()
	w.Remove(e, p)
	w.ends = slices.DeleteFunc(w.ends, func(o *end) bool { return o == e })
}

// allowedStay checks that a released peer is still found if it is allowed.
func (w *worker) allowedStay(t *rapid.T, p *Peer[*end]) {
	if p.Allowed && w.Find(p.UUID(), p.entries) == nil {
		t.Fatal("an allowed peer is forgotten")
	}
}

// check compares the table with the lists.
func (w *worker) check(t *rapid.T) {
	live := make(map[*Peer[*end]][]*end)
	for _, e := range w.ends {
		if e.peer == nil || e.peer != e.peer.Canonical() {
			t.Fatalf("%+v has the peer %p", e, e.peer)
		}
		live[e.peer] = append(live[e.peer], e)
	}
	for p, ends := range live {
		if len(p.Endpoints()) != len(ends) {
			t.Fatalf("%d endpoints, want %d", len(p.Endpoints()), len(ends))
		}
		for n, e := range p.unmatched {
			if e.number != n || !slices.Contains(ends, e) {
				t.Fatalf("number %d is %+v", n, e)
			}
		}
		for _, e := range ends {
			if !slices.Contains(p.endpoints, e) {
				t.Fatalf("%+v is not its peer's", e)
			}
		}
		if w.byUUID[p.UUID()] != p.identity {
			t.Fatalf("the uuid %d of a peer with endpoints is forgotten", p.UUID())
		}
		if l, ok := p.LastSource.(*link); ok && l.ended && l.endedOf == p {
			t.Fatal("a peer keeps a connection that has ended")
		}
	}
	for uuid, k := range w.byUUID {
		total, untrusted := 0, 0
		for _, e := range w.ends {
			if e.peer.identity == k {
				total++
			}
		}
		for _, p := range k.peers {
			if !p.Trusted() {
				untrusted++
			}
			if p.mergedInto != nil || p.identity != k || len(live[p]) == 0 && !p.Allowed {
				t.Fatalf("%+v is kept", p)
			}
			found := w.Find(uuid, p.entries)
			if found == nil || !shares(found.entries, p.entries) || p.Trusted() && !found.Trusted() {
				t.Fatalf("%+v is found instead of %+v", found, p)
			}
		}
		if int(k.endpoints) != total || untrusted > maxUntrusted || k.uuid != uuid || k.nextNumber != w.numbers[uuid] {
			t.Fatalf("%+v, want %d endpoints, number %d", k, total, w.numbers[uuid])
		}
		if len(k.peers) == 0 && total == 0 && !k.idle {
			t.Fatalf("uuid %d is kept", uuid)
		}
	}
	for uuid, n := range w.numbers {
		if k := w.byUUID[uuid]; n > 0 && (k == nil || k.nextNumber != n || !w.HasNumbered(uuid)) {
			t.Fatalf("the numbers of %d are forgotten", uuid)
		}
	}
}

// TestModel performs random actions with the peers of a worker and checks the table after each.
func TestModel(t *testing.T) {
	count := make(map[string]int)
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorker()
		for range 200 {
			w.step(t)
			w.check(t)
		}
		for len(w.ends) > 0 {
			w.close(w.ends[0])
		}
		for _, p := range w.allowed {
			p = p.Canonical()
			p.Allowed = false
			w.Release(p)
		}
		if w.Len() != w.Idle() {
			t.Fatalf("%d uuids are left, %d for their numbers", w.Len(), w.Idle())
		}
		for k, n := range w.count {
			count[k] += n
		}
		moved += w.moved
	})
	t.Log(count, moved)
	for _, k := range []string{"claimed", "not proven", "merged by a connection", "unknown again", "apart", "another of the uuid", "forgotten",
		"verdict 0", "verdict 1", "verdict 2", "verdict 3", "verdict 4"} {
		if count[k] == 0 {
			t.Errorf("%s: never, so the test does not test it", k)
		}
	}
	if moved == 0 {
		t.Error("no endpoint got another peer")
	}
}

// TestMigrated checks that the first of the addresses that a migrated peer may connect from is
// remembered.
func TestMigrated(t *testing.T) {
	var p Peer[*end]
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	p.ClearMigrated()
	if !p.MayMigrate(a) || p.MayMigrate(b) || !p.MayMigrate(a) {
		t.Error("not the first address alone")
	}
	p.ClearMigrated()
	if !p.MayMigrate(b) || p.MayMigrate(a) {
		t.Error("not the first address after ClearMigrated")
	}
}
