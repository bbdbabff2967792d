//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var wireupCases = []testCase{
	{"both sides ask at once", twoSides, testSimultaneous},
	{"endpoints created in another order", twoSides, testCreationOrder},
	{"an endpoint the peer opened is adopted", twoSides, testAdopt},
	{"many endpoints to one peer", twoSides, testManyToOne},
	{"loopback needs no wireup", anywhere, testLoopback},
	{"no-loopback pairs", anywhere, testNoLoopback},
	{"error modes must agree", twoSides, testModeMismatch},
	{"three workers", twoSides, testThree},
	{"corrupt addresses", anywhere, testBadAddresses},
	{"addresses of other transports", anywhere, testUnreachable},
	{"endpoint parameters", anywhere, testEndpointParams},
	{"endpoint description", anywhere, testEndpointQuery},
	{"too many endpoints opened by peers", twoSides, testTooManyUnexpected},
}

// exchange sends a synchronous message each way, the second over back.
func (r *rig) exchange(there *ucp.Endpoint, b *side, back *ucp.Endpoint, a *side) {
	r.Helper()
	for _, leg := range []struct {
		ep *ucp.Endpoint
		to *side
	}{{there, b}, {back, a}} {
		rreq := r.started(leg.to.TagRecv(warmTag, ucp.FullMask, nil, nil))
		r.must(leg.ep.TagSendSync(warmTag, nil, nil))
		r.must(rreq, nil)
	}
}

// endpoints checks the number of endpoints of workers.
func (r *rig) endpoints(want int, sides ...*side) {
	r.Helper()
	for i, s := range sides {
		if r.silent { // the end of a peer's endpoint is detected late
			r.eventually(func() bool { return s.Stats().Endpoints <= want })
		}
		if s.Stats().Endpoints != want {
			r.settle() // peers may have to be notified of a close first
		}
		if got := s.Stats().Endpoints; got != want {
			r.Errorf("worker %d has %d endpoints, want %d", i, got, want)
		}
	}
}

// testSimultaneous checks that two endpoints of a pair that request each other at the same time are
// connected, and that no third endpoint is created.
func testSimultaneous(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	for range 5 {
		there, back := a.connect(b), b.connect(a)
		recvs := []*ucp.Request{
			r.started(a.TagRecv(1, ucp.FullMask, nil, nil)),
			r.started(b.TagRecv(1, ucp.FullMask, nil, nil)),
		}
		sends := []*ucp.Request{
			r.started(there.TagSendSync(1, nil, nil)),
			r.started(back.TagSendSync(1, nil, nil)),
		}
		for _, req := range append(sends, recvs...) {
			r.must(req, nil)
		}
	}
	r.endpoints(5, a, b)
}

// testCreationOrder checks that the k-th endpoint of one side is connected with the k-th of the
// other, in whatever order they are created and first used.
func testCreationOrder(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	var there, back [4]*ucp.Endpoint
	there[0], there[1] = a.connect(b), a.connect(b)
	back[0] = b.connect(a)
	there[2] = a.connect(b)
	recv := r.started(b.TagRecv(1, ucp.FullMask, nil, nil))
	r.must(there[2].TagSendSync(1, nil, nil)) // the peer has no third endpoint yet
	r.must(recv, nil)
	r.endpoints(3, a)
	if !tr.paired {
		r.endpoints(2, b)
	}
	for i := 1; i < 4; i++ {
		back[i] = b.connect(a)
	}
	there[3] = a.connect(b)
	for i := 3; i >= 0; i-- {
		r.exchange(there[i], b, back[i], a)
	}
	r.endpoints(4, a, b)
}

// testAdopt checks that a peer's message opens an endpoint here, and that NewEndpoint returns the
// same one afterwards.
func testAdopt(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	there := a.connect(b)
	r.warm(there, b)
	r.endpoints(1, a, b)
	back := b.connectWith(a, ucp.EndpointParams{Name: "adopted"})
	if name := back.Attr().Name; name != "adopted" {
		t.Errorf("name %q", name)
	}
	sent := b.Stats().WireupSent
	r.exchange(there, b, back, a)
	if again := b.Stats().WireupSent; again != sent {
		t.Errorf("%d wireup messages on an endpoint that knows its peer", again-sent)
	}
	r.endpoints(1, a, b)
	// The next endpoint is new.
	r.exchange(a.connect(b), b, b.connect(a), a)
	r.endpoints(2, a, b)
}

func testManyToOne(t *testing.T, tr transport) {
	n := min(40, ucttest.Files()/16)
	r := newRig(t, tr)
	a, b := r.pair()
	there, back := make([]*ucp.Endpoint, n), make([]*ucp.Endpoint, n)
	for i := range there {
		there[i] = a.connect(b)
	}
	var reqs []*ucp.Request
	for i := range there {
		reqs = append(reqs, r.started(b.TagRecv(ucp.Tag(i), ucp.FullMask, nil, nil)),
			r.started(there[i].TagSendSync(ucp.Tag(i), nil, nil)))
	}
	for _, req := range reqs {
		r.must(req, nil)
	}
	r.endpoints(n, a, b)
	for i := range back {
		back[i] = b.connect(a)
	}
	r.endpoints(n, a, b)
	for i := range back {
		r.exchange(there[i], b, back[i], a)
	}
}

// testLoopback checks that an endpoint to the own worker is connected with itself.
func testLoopback(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	ep := a.connect(a)
	r.exchange(ep, a, ep, a)
	if s := a.Stats(); s.WireupSent != 0 || s.Endpoints != 1 {
		t.Errorf("counters %+v", s)
	}
}

// testNoLoopback checks that with EndpointNoLoopback the endpoints of a worker to itself are
// connected in pairs.
func testNoLoopback(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	p := ucp.EndpointParams{Flags: ucp.EndpointNoLoopback}
	one, two := a.connectWith(a, p), a.connectWith(a, p)
	r.exchange(one, a, two, a)
	r.endpoints(2, a)
	// The counterpart of the third endpoint is created after that one was used.
	three := a.connectWith(a, p)
	r.warm(three, a)
	four := a.connectWith(a, p)
	r.exchange(four, a, three, a)
	r.exchange(two, a, one, a)
	r.endpoints(4, a)
}

// testModeMismatch checks that endpoints of different error modes are not connected, and that
// operations end where an error can be reported.
func testModeMismatch(t *testing.T, tr transport) {
	t.Run("adopted", func(t *testing.T) {
		r := newRig(t, tr)
		a, b := r.pair()
		there := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		r.warm(there, b)
		ep, err := b.NewEndpoint(ucp.EndpointParams{Address: a.address()})
		if ep != nil || !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("endpoint in another mode: %v, %v", ep, err)
		}
	})
	t.Run("created before", func(t *testing.T) {
		r := newRig(t, tr)
		a, b := r.pair()
		there := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		back := b.connect(a)
		req := r.started(there.TagSendSync(1, nil, nil))
		r.until("the peer's endpoint to fail", func() bool { return back.Err() != nil })
		if _, err := back.TagSend(1, nil, nil); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("send: %v", err)
		}
		// The endpoint with error handling can be closed by force.
		r.inTheCall(there.CloseAsync(&ucp.RequestParams{CloseFlags: ucp.CloseForce}))
		both := tr.paired && errors.Is(req.Err(), ucs.ErrUnsupported) // both know the other's mode
		if err := req.Err(); !both && !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("send: %v", err)
		}
	})
}

func testThree(t *testing.T, tr transport) {
	r := newRig(t, tr)
	w := []*side{r.open(), r.open(), r.open()}
	eps := make(map[[2]int]*ucp.Endpoint)
	for i := range w {
		for k := range w {
			if i != k {
				eps[[2]int{i, k}] = w[i].connect(w[k])
			}
		}
	}
	var reqs []*ucp.Request
	for pair, ep := range eps {
		tag := ucp.Tag(pair[0])
		reqs = append(reqs, r.started(w[pair[1]].TagRecv(tag, ucp.FullMask, nil, nil)),
			r.started(ep.TagSendSync(tag, nil, nil)))
	}
	for _, req := range reqs {
		r.must(req, nil)
	}
	r.endpoints(2, w...)
}

// testBadAddresses checks that truncated and corrupt addresses cause errors or endpoints that do
// not connect, and no panics.
func testBadAddresses(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	good := b.address()
	try := func(addr ucp.Address) {
		t.Helper()
		addr.UID()
		ep, err := a.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: ucp.ErrModePeer})
		if (ep == nil) == (err == nil) {
			t.Errorf("address %x: %v, %v", addr, ep, err)
		}
		if ep != nil {
			r.must(ep.CloseAsync(&ucp.RequestParams{CloseFlags: ucp.CloseForce}))
		}
	}
	for n := range good {
		ep, err := a.NewEndpoint(ucp.EndpointParams{Address: good[:n:n]})
		if ep != nil || err == nil {
			t.Errorf("%d of %d bytes of an address: %v, %v", n, len(good), ep, err)
		}
		try(append(good[:n:n], 0xFF))
	}
	if tr.sim != nil || tr.loopback { // elsewhere it could be the address of another process
		for i := range good {
			for bit := range 8 {
				bad := append(ucp.Address(nil), good...)
				bad[i] ^= 1 << bit
				try(bad)
			}
		}
	}
	for _, n := range []int{1, 100, 10_000} {
		for _, fill := range []byte{0, 0xFF, 0x11} {
			bad := make(ucp.Address, n)
			for i := range bad {
				bad[i] = fill
			}
			try(bad)
		}
	}
	r.endpoints(0, a)
	if tr.paired { // b has the peers' endpoints of these, and would return them
		b = r.open()
	}
	r.exchange(a.connect(b), b, b.connect(a), a)
}

// testUnreachable checks that an address without a common transport is refused, and that the error
// says what is needed.
func testUnreachable(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	other := newOther(r)
	ep, err := a.NewEndpoint(ucp.EndpointParams{Address: other.address()})
	if ep != nil || !errors.Is(err, ucs.ErrUnreachable) {
		t.Fatalf("endpoint %v, %v", ep, err)
	}
	// A worker that can be reached only within its host has no network address.
	if tr.loopback {
		addr, err := a.Address(ucp.AddressNetOnly)
		if err != nil {
			t.Fatal(err)
		}
		if ep, err := a.NewEndpoint(ucp.EndpointParams{Address: addr}); ep != nil || !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("net-only address: %v, %v", ep, err)
		}
	}
	if _, err := a.Address(1 << 7); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("address with an unknown flag: %v", err)
	}
}

// newOther opens a worker on a transport that does not reach r's.
func newOther(r *rig) *side {
	r.Helper()
	saved := r.settings
	defer func() { r.settings = saved }()
	r.settings = []setting{{"TLS", "self"}}
	return r.open()
}

func testEndpointParams(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	addr := b.address()
	for what, p := range map[string]ucp.EndpointParams{
		"no address":   {},
		"unknown mode": {Address: addr, ErrMode: ucp.ErrModePeer + 1},
		"unknown flag": {Address: addr, Flags: 1 << 20},
	} {
		if ep, err := a.NewEndpoint(p); ep != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v, %v", what, ep, err)
		}
	}
	uid, err := addr.UID()
	if err != nil || uid != b.Worker.Attr().UID || uid == 0 {
		t.Errorf("address of %#x, %v; the worker is %#x", uid, err, b.Worker.Attr().UID)
	}
	// The caller may change the address afterwards.
	before := string(addr)
	ep, err := a.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	clear(addr)
	r.exchange(ep, b, b.connect(a), a)
	if string(b.address()) != before {
		t.Error("the worker's address changed")
	}
}

func testEndpointQuery(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	one, two := a.connect(b), a.connectWith(b, ucp.EndpointParams{
		Name: "a name that is longer than the thirty-one bytes that fit", UserData: 5,
	})
	if n := two.Attr().Name; n != "a name that is longer than the " {
		t.Errorf("name %q", n)
	}
	if n := one.Attr().Name; n == "" || n == two.Attr().Name {
		t.Errorf("made-up name %q", n)
	}
	if two.Attr().UserData != 5 {
		t.Errorf("user data %v", two.Attr().UserData)
	}
	list := one.Attr().Transports
	if len(list) == 0 || list[0].Name == "" || list[0].Device == "" {
		t.Errorf("transports %+v", list)
	}
	e := one.Explain()
	if len(e.Searches) == 0 || len(e.Lanes) != len(list) {
		t.Errorf("%d lanes, explained as\n%s", len(list), e)
	}
	for i, l := range e.Lanes {
		if want := fmt.Sprintf("lane[%d]:", i); !strings.HasPrefix(l, want) || !strings.Contains(l, list[i].Name+"/"+list[i].Device) {
			t.Errorf("lane %d is %+v, explained as %s", i, list[i], l)
		}
	}
	var text strings.Builder
	if err := two.WriteInfo(&text); err != nil || !strings.Contains(text.String(), two.Attr().Name) {
		t.Errorf("%v in\n%s", err, text.String())
	}
	if err := two.WriteInfo(failingWriter{io.ErrShortWrite}); err != io.ErrShortWrite {
		t.Errorf("writing that fails: %v", err)
	}
	if one.Err() != nil {
		t.Errorf("error %v", one.Err())
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

// testTooManyUnexpected checks that peers cannot open more endpoints than the setting permits, that
// existing ones go on, and that a closed one makes room.
func testTooManyUnexpected(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"MAX_UNEXP_EPS", "3"}))
	r.log.Allow("refusing a peer's request")
	a, b := r.pair()
	var eps []*ucp.Endpoint
	for range 3 {
		ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		r.warm(ep, b)
		eps = append(eps, ep)
	}
	r.endpoints(3, b)
	over := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	req := r.started(over.TagSendSync(1, nil, nil))
	r.settle()
	r.endpoints(3, b)
	if req.Done() && req.Err() == nil {
		t.Error("the send over the limit succeeded")
	}
	r.inTheCall(over.CloseAsync(&ucp.RequestParams{CloseFlags: ucp.CloseForce}))
	if !req.Done() {
		t.Error("the send did not end")
	}
	if tr.sim != nil { // elsewhere the peer's connection, which they share, is dropped
		for _, ep := range eps {
			r.warm(ep, b)
		}
	}
	// Endpoints of the application do not count.
	mine := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	if mine.Err() != nil {
		t.Error(mine.Err())
	}
}
