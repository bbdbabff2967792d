package identity

import (
	"testing"
	"unsafe"

	"github.com/ucx-go/ucx/proto"
)

// TestSizes checks the size of the record of a peer, as peers are many and short-lived.
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(Peer[*end]{}) + unsafe.Sizeof(identity[*end]{}); n > 152 {
		t.Errorf("what is remembered of a peer takes %d bytes, at most 152 are allowed", n)
	}
}

// TestUntrustedOfOneUUID checks that a search looks at no more than maxUntrusted of the untrusted
// peers of a uuid, that a trusted peer is found first, and that no record of them remains at the
// end.
func TestUntrustedOfOneUUID(t *testing.T) {
	const uuid = 0xABC
	w := newWorker()
	var all []*Peer[*end]
	for k := range 5 * maxUntrusted {
		a := addressOf(uuid, 0)
		a.Devices[0].Ifaces[0].Addr = []byte{byte(k), byte(k >> 8), 1}
		p := w.NewUntrusted(a)
		all = append(all, p)
		w.Add(new(end), p)
		if found := w.Find(uuid, EntriesOf(a)); (found == p) != (k < maxUntrusted) {
			t.Fatalf("peer %d: found %v", k, found == p)
		}
	}
	mine := w.Given(addressOf(uuid, 8))
	mine.Given = true
	if w.Find(uuid, mine.Entries()) != mine || w.FindTrusted(uuid) != mine {
		t.Error("the application's peer is not found")
	}
	if list := w.Addresses(uuid, mine.Entries()[0]); len(list) != 1 || list[0] != mine.Address() {
		t.Errorf("%d addresses with the entry", len(list))
	}
	w.Release(mine)
	if w.FindTrusted(uuid) != nil || len(w.Addresses(uuid, mine.Entries()[0])) != 0 {
		t.Error("the application's peer is found after its end")
	}
	for _, p := range all {
		if w.Len() != 1 {
			t.Fatal("the uuid is forgotten while there is an endpoint to one of its peers")
		}
		w.Remove(p.Endpoints()[0], p)
	}
	if w.Len() != 0 {
		t.Errorf("%d uuids are left", w.Len())
	}
}

// TestNumbersOfIdle checks that the connection numbers of the last MaxIdle uuids without peers are
// kept.
func TestNumbersOfIdle(t *testing.T) {
	w := newWorker()
	open := func(uuid uint64) uint16 {
		p := w.Given(addressOf(uuid, 1))
		p.Given = true
		n := p.TakeNumber()
		e := &end{number: n, claimed: true}
		w.Add(e, p)
		w.Remove(e, p)
		return n
	}
	for k := range uint64(MaxIdle + 3) {
		open(1 + k)
	}
	if w.Idle() != MaxIdle || w.Len() != MaxIdle {
		t.Errorf("%d uuids, %d of them idle", w.Len(), w.Idle())
	}
	for uuid, want := range map[uint64]uint16{1: 0, 2: 0, MaxIdle: 1, MaxIdle + 3: 1} {
		if n := open(uuid); n != want {
			t.Errorf("the next number of uuid %d is %d, want %d", uuid, n, want)
		}
	}
}

// TestNumbersEnd checks that endpoints have no number after the last one is used, and that an
// endpoint without a number matches nothing.
func TestNumbersEnd(t *testing.T) {
	w := newWorker()
	p := w.Given(addressOf(1, 1))
	p.Given = true
	mine := &end{number: 7, claimed: true}
	w.Add(mine, p)
	p.AddUnmatched(mine)
	if _, ok := p.Claim(7, func(*end) bool { return true }); ok {
		t.Error("an endpoint of the application is given to it again")
	}
	for n := range proto.ConnSNNone {
		if p.TakeNumber() != n {
			t.Fatalf("not number %d", n)
		}
	}
	e := &end{number: p.TakeNumber(), claimed: true}
	if e.number != proto.ConnSNNone || p.TakeNumber() != proto.ConnSNNone {
		t.Fatalf("number %d", e.number)
	}
	w.Add(e, p)
	p.AddUnmatched(e)
	if _, ok := p.Unmatched(e.number); ok {
		t.Error("an endpoint without a number waits for its counterpart")
	}
	if v, _ := p.Match(proto.ConnSNNone, 5); v != Open {
		t.Errorf("verdict %d", v)
	}
	if _, ok := p.Claim(proto.ConnSNNone, func(*end) bool { return true }); ok {
		t.Error("an endpoint without a number is given to the application")
	}
}

// TestEndedConnection: a peer forgets its last connection when that has ended, and keeps a later one;
// a peer that it is merged with may bring one.
func TestEndedConnection(t *testing.T) {
	w := newWorker()
	p, q := w.NewUntrusted(addressOf(1, 1)), w.NewUntrusted(addressOf(1, 2))
	first, second, other := new(link), new(link), new(link)
	first.owner.Bind(&w.Table, p, first)
	second.owner.Bind(&w.Table, p, second)
	other.owner.Bind(&w.Table, q, other)
	if first.owner.SetEnded(first); p.LastSource != second {
		t.Error("a connection that is not the last ends, and the last is forgotten")
	}
	second.owner.SetEnded(second)
	second.owner.SetEnded(second)
	if p.LastSource != nil {
		t.Error("a connection is kept when it has ended")
	}
	if w.Merge(q, p); p.LastSource != other {
		t.Error("the connection of the merged peer is not kept")
	}
	if other.owner.SetEnded(other); p.LastSource != nil {
		t.Error("a connection of a merged peer is kept when it has ended")
	}
	last := new(link)
	last.owner.SetEnded(last) // of no peer
}

// TestMergeMovesEndpoints: a peer that turns out to be another known peer brings its endpoints
// along. Of two endpoints with the same number, the other peer's keeps it.
func TestMergeMovesEndpoints(t *testing.T) {
	w := newWorker()
	var p [2]*Peer[*end]
	var ends []*end
	for k := range p {
		p[k] = w.NewUntrusted(addressOf(1, byte(k)))
		for n := range uint16(3) {
			e := &end{number: 2*n + uint16(k)}
			if n == 2 {
				e.number = 9 // a number of both peers
			}
			w.Add(e, p[k])
			p[k].AddUnmatched(e)
			ends = append(ends, e)
		}
	}
	last := new(link)
	p[0].contested, p[0].LastSource, p[1].LastSource = true, new(link), last
	w.Merge(p[0], p[1])
	w.Merge(p[1], p[1])
	if !p[1].Contested() || p[1].LastSource != last {
		t.Error("the peer that remains is not contested, or has another last connection")
	}
	if len(p[1].Endpoints()) != 6 || len(p[1].unmatched) != 5 || p[0].Canonical() != p[1] || w.Find(1, p[0].Entries()) != nil {
		t.Errorf("%d endpoints, %d wait", len(p[1].Endpoints()), len(p[1].unmatched))
	}
	if e, _ := p[1].Unmatched(9); e != ends[5] {
		t.Error("the number that both have is not that of the peer that remains")
	}
	q := w.NewUntrusted(addressOf(1, 9))
	w.Merge(p[1], q)
	if q.LastSource != last {
		t.Error("the last connection is forgotten")
	}
	for _, k := range []int{2, 0, 5, 1, 4, 3} {
		w.Remove(ends[k], ends[k].peer)
	}
	if w.Len() != 0 || q.unmatched != nil {
		t.Errorf("%d uuids are left", w.Len())
	}
}
