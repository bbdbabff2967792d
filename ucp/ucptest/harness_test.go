//go:build linux

package ucptest

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// The harness drives several workers from one goroutine: it progresses them in turn until an
// expected event has happened, and gives up after a number of rounds without events. Its only
// sleeps are for events of the workers.

// transport is what a test runs over.
type transport struct {
	name     string
	settings []setting

	// loopback means that a worker reaches only itself, so both sides of a test are the same
	// worker.
	loopback bool

	// shows are the names of the groups of cases in which the transport differs from the others;
	// nil means all. With needtest.Full all groups run.
	shows []string

	// few limits the tests that run under every switch to those switches that
	// change most.
	few bool

	// turn selects the variants of a test that run over this transport, where the variants are
	// distributed among transports; 0 means all. See takes.
	turn int

	// busy means that no operation can be expected to complete in its call.
	busy bool

	// instant means that the peer's memory is read before the call returns, although the completion
	// is reported later.
	instant bool

	// silent means that only its silence shows that a peer has ended.
	silent bool

	// paired means that lanes are connected pairwise: an endpoint requests its peer's endpoint at
	// its creation, so the peer has one then, too.
	paired bool

	// profiled means that allocations are counted by the memory profile, without those of the
	// device without a kernel.
	profiled bool

	// mode is the thread mode of workers.
	mode ucs.ThreadMode

	// background means that workers have a background goroutine.
	background bool

	// tls is a configuration for contexts, or nil.
	tls *tls.Config

	// listen is the address at which tests of connections listen, IPv4 loopback if it is not valid.
	listen netip.Addr

	// dialedRDMA means that RDMA's connection manager makes the connections by socket address.
	dialedRDMA bool

	// devices are the devices that the workers of a test use in turn, if each worker has its own.
	devices []string

	sim *simulated // nil for real transports
}

// setting is a variable without its prefix UCX_.
type setting struct{ name, value string }

var transports = inTurn([]transport{
	{name: "self", settings: []setting{{"TLS", "self"}}, loopback: true},
	{name: "tcp", settings: []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}},

	// The kernel buffers little, so operations stop in the middle.
	{name: "tcp with small buffers", few: true, shows: narrows,
		settings: []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}, {"TCP_SNDBUF", "4k"}, {"TCP_RCVBUF", "4k"}}},

	// Every pair of sides has two connections, and everything is copied.
	transport{name: "tls", few: true, tls: certtest.New().Mutual("peer"),
		settings: []setting{{"TLS", "tls"}, {"NET_DEVICES", "lo"}},
		shows:    append([]string{"streams", "lengths", "active messages"}, lanes...)},

	{name: "posix", settings: []setting{{"TLS", "posix"}}},

	// Like posix, except for the source of its memory.
	{name: "sysv", few: true, settings: []setting{{"TLS", "sysv"}},
		shows: []string{"transfer", "cancellation", "wireup", "addresses", "close", "worker close", "failure", "put and get"}},

	{name: "posix and cma", few: true, settings: []setting{{"TLS", "posix,cma"}}, shows: memories},
	{name: "a small ring", few: true, settings: []setting{{"TLS", "posix"}, {"POSIX_FIFO_SIZE", "4"}}, shows: narrows},

	simPlain,
	simLate.rough(),
	simStorm.rough(),
	simPlaced.rough().showing(memories...),
	simLanes.rough().showing(lanes...),
	simPairs.rough().pairwise(),
	simPairsLate.rough().pairwise(),
	simLanesStorm.rough().showing(append([]string{"streams", "faults", "active messages"}, lanes...)...),
	simMemh.showing(memories...),
	simNoMemh.showing(memories...),
	simKeys.rough().showing(memories...),
	simKeyPairs.rough().pairwise().showing(memories...),

	rc,
	ud,
	rcLeast.showing(narrows...),
	udLeast.showing(narrows...),
	rcTCP,
	rcTCPOnly,
	udTCP,
	ibSelf,

	// The same with workers that many goroutines may use. These tests use one at a time.
	transport{name: "self", settings: []setting{{"TLS", "self"}}, loopback: true}.shared().showing(locks...),
	transport{name: "tcp", settings: []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}}.shared().showing(locks...),
	transport{name: "posix and cma", settings: []setting{{"TLS", "posix,cma"}}}.shared().showing(locks...),
	simPlain.shared(),
	simStorm.rough().shared().showing("transfer", "streams", "order", "flush", "close", "failure", "faults", "active messages", "put and get"),
})

// lanes are the groups that depend on which lanes there are, how they are selected, how a worker
// sleeps on all of them, and what happens to the others when one is lost.
var lanes = []string{"transfer", "order", "wireup", "addresses", "flush", "close", "worker close", "failure", "wakeup", "signals", "put and get"}

// narrows are the groups in which operations wait for room.
var narrows = []string{"transfer", "cancellation", "streams", "datatypes", "requests", "order", "flush", "close", "failure", "active messages", "put and get"}

// memories are the groups that depend on how memory is registered, copied and accessed.
var memories = []string{"transfer", "cancellation", "lengths", "datatypes", "requests", "wireup", "close", "failure", "faults", "active messages", "put and get", "atomics"}

// locks are the groups in which calls come from callbacks, goroutines wait, or workers are closed
// during calls.
var locks = []string{"transfer", "cancellation", "completion", "requests", "waiting", "close", "worker close", "failure", "wakeup", "signals", "panics", "active messages", "put and get", "atomics"}

// inTurn sets turn for the transports of a list that resemble others of it.
func inTurn(list []transport) []transport {
	for i := range list {
		if list[i].few && list[i].name != rc.name && list[i].name != ud.name {
			list[i].turn = 1 + i
		}
	}
	return list
}

// turns is the number of similar transports that together run all variants of a test. Each variant
// then runs over each kind of transport, but not over each transport.
const turns = 3

// takes reports whether variant k of a test runs over the transport. With needtest.Full all do.
func (tr transport) takes(k int) bool { return tr.turn == 0 || needtest.Full || (k+tr.turn)%turns == 0 }

// showing returns the transport restricted to these groups.
func (tr transport) showing(groups ...string) transport {
	tr.shows = groups
	return tr
}

// shared returns the transport with workers in thread mode multi.
func (tr transport) shared() transport {
	tr.name += ", shared"
	tr.few, tr.mode = true, ucs.ThreadModeMulti
	return tr
}

// attended returns the transport with workers that have a background goroutine.
func (tr transport) attended() transport {
	tr = tr.shared()
	tr.background = true
	return tr
}

// pairwise returns the transport, marked as one whose lanes are connected pairwise.
func (tr transport) pairwise() transport {
	tr.paired = true
	return tr
}

// with returns the transport with more settings.
func (tr transport) with(more ...setting) transport {
	tr.settings = slices.Concat(tr.settings, more)
	return tr
}

// peerMode returns ErrModePeer if the transport can report lost peers, else ErrModeNone.
func (tr transport) peerMode() ucp.ErrMode {
	if tr.loopback {
		return ucp.ErrModeNone
	}
	return ucp.ErrModePeer
}

// byName returns one of the transports.
func byName(t testing.TB, name string) transport {
	t.Helper()
	for _, tr := range transports {
		if tr.name == name {
			return tr
		}
	}
	t.Fatalf("no transport %q", name)
	return transport{}
}

// rig is the set of workers of a test. It watches the log. At the end of the test it closes what is
// open and checks for leaks.
type rig struct {
	testing.TB
	transport
	log    *logtest.Log
	sides  []*side
	keys   []*ucp.Rkey // to be closed at the end
	opened int         // number of workers opened
}

// side is a worker with a context of its own.
type side struct {
	*ucp.Worker
	rig *rig
	ctx *ucp.Context
	fd  int

	guest bool // the context belongs to another side

	unmap []*ucp.Memory // to be unmapped at the end
}

// endless is the length of a message that does not complete while its receiver does not read: more
// than the kernel buffers for a connection.
const endless = 12 << 20

// features are those that the suite needs.
const features = ucp.FeatureTag | ucp.FeatureWakeup

func newRig(t testing.TB, tr transport) *rig {
	t.Helper()
	for _, s := range tr.settings {
		if s.name == "TLS" {
			needCalls(t, strings.Split(s.value, ",")...)
		}
	}
	ucttest.NoLeaks(t)
	r := &rig{TB: t, transport: tr, log: logtest.Watch(t)}
	if refusesCall() {
		r.log.Allow("interface not usable") // sysv, where all transports are selected
	}
	t.Cleanup(func() {
		for _, s := range r.sides {
			s.close()
		}
	})
	return r
}

// config returns the settings of the rig's transport.
func (r *rig) config() *ucp.Config {
	r.Helper()
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		r.Fatal(err)
	}
	for _, s := range r.settings {
		if err := cfg.Modify(s.name, s.value); err != nil {
			r.Fatal(err)
		}
	}
	if n := len(r.devices); n > 0 {
		if err := cfg.Modify("NET_DEVICES", r.devices[r.opened%n]); err != nil {
			r.Fatal(err)
		}
		r.opened++
	}
	return cfg
}

// open opens a worker.
func (r *rig) open() *side {
	r.Helper()
	return r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{})
}

func (r *rig) openWith(cp ucp.ContextParams, wp ucp.WorkerParams) *side {
	r.Helper()
	cp.TLS = r.tls
	wp.ThreadMode = max(wp.ThreadMode, r.mode)
	wp.Background = wp.Background || r.background
	ctx, err := ucp.NewContext(cp, r.config())
	if err != nil {
		r.Fatal(err)
	}
	w, err := ctx.NewWorker(wp)
	if err != nil {
		r.Fatal(err)
	}
	s := &side{Worker: w, rig: r, ctx: ctx, fd: -1}
	if fd, err := w.EventFD(); err == nil {
		s.fd = fd
	}
	r.sides = append(r.sides, s)
	return s
}

// close closes worker and context. A test may call it before its end.
func (s *side) close() {
	s.rig.Helper()
	s.fd = -1
	if err := s.Worker.Close(); err != nil {
		s.rig.Errorf("closing worker: %v", err)
	}
	s.Arm() // a poller of the descriptor would do this after the wakeup
	for _, m := range s.unmap {
		if err := m.Close(); err != nil {
			s.rig.Errorf("unmapping memory: %v", err)
		}
	}
	for _, k := range s.rig.keys {
		if err := k.Close(); err != nil {
			s.rig.Errorf("closing a key: %v", err)
		}
	}
	if s.guest {
		return
	}
	if err := s.ctx.Close(); err != nil {
		s.rig.Errorf("closing context: %v", err)
	}
}

// pair opens two workers that reach each other. On a loopback transport both are the same.
func (r *rig) pair() (a, b *side) {
	r.Helper()
	a = r.open()
	if r.loopback {
		return a, a
	}
	return a, r.open()
}

// connect creates an endpoint that stays open until Worker.Close.
func (s *side) connect(to *side) *ucp.Endpoint {
	s.rig.Helper()
	return s.connectWith(to, ucp.EndpointParams{})
}

func (s *side) connectWith(to *side, p ucp.EndpointParams) *ucp.Endpoint {
	s.rig.Helper()
	p.Address = to.address()
	ep, err := s.NewEndpoint(p)
	if err != nil {
		s.rig.Fatal(err)
	}
	return ep
}

func (s *side) address() ucp.Address {
	s.rig.Helper()
	addr, err := s.Address(0)
	if err != nil {
		s.rig.Fatal(err)
	}
	return addr
}

// Limits of waiting: rounds without events, first spinning, then with a sleep of at most a
// millisecond or until a worker has an event.
const (
	spinRounds = 2000
	waitRounds = 2000
)

// progress runs one round on every worker.
func (r *rig) progress() int {
	n := 0
	for _, s := range r.sides {
		n += s.Progress()
	}
	return n
}

// eventually progresses until cond holds, and reports whether it does.
func (r *rig) eventually(cond func() bool) bool {
	emptyRounds := spinRounds + waitRounds
	if r.silent {
		emptyRounds = spinRounds + 100*waitRounds
	}
	for idle := 0; idle < emptyRounds; {
		if cond() {
			return true
		}
		if r.progress() > 0 {
			idle = 0
			continue
		}
		if idle++; idle > spinRounds {
			r.sleep(1)
		} else if idle%64 == 0 {
			runtime.Gosched()
		}
	}
	return cond()
}

// until progresses until cond holds, and fails the test if it does not come to that.
func (r *rig) until(what string, cond func() bool) {
	r.Helper()
	if !r.eventually(cond) {
		r.Fatalf("progressed for ever, still waiting for: %s", what)
	}
}

// sleep waits until a worker has an event, or for some milliseconds.
func (r *rig) sleep(ms int) {
	var fds []unix.PollFd
	for _, s := range r.sides {
		if s.fd >= 0 {
			fds = append(fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
		}
	}
	unix.Poll(fds, ms)
}

// settle progresses until nothing has happened for a while. The kernel may delay data for a moment;
// other transports do not. Timers of transports may go on forever, so the number of moments and of
// rounds is limited.
func (r *rig) settle() {
	const rounds, moments, most = 100, 20, 10_000
	for idle, slept, n := 0, 0, 0; idle < rounds && slept < moments && n < most; idle, n = idle+1, n+1 {
		if r.progress() > 0 {
			idle = 0
		}
		if idle >= rounds-2 && r.overKernel() {
			r.sleep(1)
			slept++
		}
	}
}

// overKernel reports whether the kernel carries any messages of the workers.
func (r *rig) overKernel() bool {
	if r.loopback {
		return false
	}
	return r.sim == nil || slices.ContainsFunc(r.settings, func(s setting) bool {
		return s.name == "TLS" && strings.Contains(s.value, "tcp")
	})
}

// finish waits for an operation, frees its request and returns the result.
func (r *rig) finish(req *ucp.Request, err error) error {
	r.Helper()
	if req == nil || err != nil {
		return err
	}
	r.until("the end of an operation", req.Done)
	err = req.Err()
	req.Free()
	return err
}

// must waits for an operation that must succeed.
func (r *rig) must(req *ucp.Request, err error) {
	r.Helper()
	if err := r.finish(req, err); err != nil {
		r.Fatal(err)
	}
}

// started returns the request of an operation that must not complete in its call.
func (r *rig) started(req *ucp.Request, err error) *ucp.Request {
	r.Helper()
	switch {
	case err != nil:
		r.Fatal(err)
	case req == nil:
		r.Fatal("finished in the call, want a request")
	}
	return req
}

// inTheCall checks that an operation has succeeded in its call.
func (r *rig) inTheCall(req *ucp.Request, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	if req != nil {
		r.Fatalf("still running, want it finished in the call: %v", req.Err())
	}
}

// sendAndTake sends a message, receives it when it has arrived and checks it.
func (r *rig) sendAndTake(ep *ucp.Endpoint, to *side, tag ucp.Tag, src []byte) {
	r.Helper()
	sreq, err := ep.TagSend(tag, src, nil)
	if err != nil {
		r.Fatal(err)
	}
	r.arrived(to, tag)
	buf := make([]byte, len(src)+1)
	var info ucp.TagRecvInfo
	req, err := to.TagRecv(tag, ucp.FullMask, buf, &ucp.RequestParams{TagInfo: &info})
	if req != nil {
		r.until("a receive", req.Done)
		info, err = req.TagRecvInfo()
		req.Free()
	}
	if want := (ucp.TagRecvInfo{SenderTag: tag, Length: len(src)}); err != nil || info != want {
		r.Fatalf("receive: %v, %+v, want %+v", err, info, want)
	}
	ucttest.SameBytes(r, "message", buf[:len(src)], src)
	r.must(sreq, nil)
}

// warmTag is the tag of messages of the harness.
const warmTag ucp.Tag = 0xFEED_0000_0000_0000

// warm exchanges a message, so that the endpoint is connected, knows the peer's id and can send a
// short message in the call.
func (r *rig) warm(ep *ucp.Endpoint, to *side) {
	r.Helper()
	recv, err := to.TagRecv(warmTag, ucp.FullMask, nil, nil)
	if err != nil {
		r.Fatal(err)
	}
	r.must(ep.TagSendSync(warmTag, nil, nil))
	r.must(recv, nil)
	for range 10 {
		r.progress()
	}
}

// arrived waits until a message without a receive has arrived.
func (r *rig) arrived(s *side, tag ucp.Tag) {
	r.Helper()
	r.until("a message without receive", func() bool {
		_, ok := s.TagPeek(tag, ucp.FullMask)
		return ok
	})
}

// outcome records the arguments of a callback.
type outcome struct {
	calls int
	req   *ucp.Request
	err   error
	info  ucp.TagRecvInfo
	data  any
}

func (o *outcome) onSend(req *ucp.Request, err error, data any) {
	*o = outcome{calls: o.calls + 1, req: req, err: err, data: data}
}

func (o *outcome) onRecv(req *ucp.Request, err error, info ucp.TagRecvInfo, data any) {
	*o = outcome{calls: o.calls + 1, req: req, err: err, info: info, data: data}
}

// once fails the test unless the callback ran exactly once.
func (o *outcome) once(t testing.TB) {
	t.Helper()
	if o.calls != 1 {
		t.Fatalf("the callback ran %d times, want once", o.calls)
	}
}

func (s setting) String() string { return fmt.Sprintf("%s=%s", s.name, s.value) }
