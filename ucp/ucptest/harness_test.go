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

// The harness drives several workers from one goroutine: it progresses them in
// turn until something has happened, and gives up after a number of rounds in
// which nothing did. Nothing sleeps but for events of the workers.

// transport is the ground a test runs on.
type transport struct {
	name     string
	settings []setting

	// loopback says that a worker reaches itself only: both sides of a test are
	// the same worker.
	loopback bool

	// shows are the groups of cases in which it shows what the transport differs in from one
	// of the others; nil are all. With needtest.Full all run.
	shows []string

	// few limits the tests that run under every switch to those switches that
	// change most.
	few bool

	// turn is what the transport has its turn by, where tests of many variants are dealt out
	// among transports; 0 is for one that takes all. See takes.
	turn int

	// busy says that nothing can be expected to finish in its call.
	busy bool

	// instant says that the peer's memory is read before the call that asks for it
	// returns, although its end is told of later.
	instant bool

	// silent says that the end of a peer is known by its silence.
	silent bool

	// paired says that lanes are connected pairwise: an endpoint asks its peer when it is
	// made, who has one then, too.
	paired bool

	// profiled says that allocations are counted by the profile: those of the device without
	// a kernel are none of ours.
	profiled bool

	// mode is the thread mode of workers.
	mode ucs.ThreadMode

	// background: workers are progressed while nobody waits on them.
	background bool

	// tls is a configuration for contexts, or nil.
	tls *tls.Config

	// listen is the address that tests of connections listen at, that of IPv4 loopback if
	// it is not valid.
	listen netip.Addr

	// dialedRDMA says that connections by socket address are made by RDMA's manager.
	dialedRDMA bool

	// devices are those that the workers of a test use in turn, where each has its own.
	devices []string

	sim *simulated // nil for the others
}

// setting is a variable without its prefix UCX_.
type setting struct{ name, value string }

var transports = inTurn([]transport{
	{name: "self", settings: []setting{{"TLS", "self"}}, loopback: true},
	{name: "tcp", settings: []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}},

	// The kernel takes little at a time: operations stop in the middle.
	{name: "tcp with small buffers", few: true, shows: narrows,
		settings: []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}, {"TCP_SNDBUF", "4k"}, {"TCP_RCVBUF", "4k"}}},

	// Every pair of sides has two connections, and nothing goes without copies.
	transport{name: "tls", few: true, tls: certtest.New().Mutual("peer"),
		settings: []setting{{"TLS", "tls"}, {"NET_DEVICES", "lo"}},
		shows:    append([]string{"streams", "lengths", "active messages"}, lanes...)},

	{name: "posix", settings: []setting{{"TLS", "posix"}}},

	// As posix, but for where its memory is from.
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

	// The same with workers that many goroutines may use. Here it is one at a time.
	transport{name: "self", settings: []setting{{"TLS", "self"}}, loopback: true}.shared().showing(locks...),
	transport{name: "tcp", settings: []setting{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}}.shared().showing(locks...),
	transport{name: "posix and cma", settings: []setting{{"TLS", "posix,cma"}}}.shared().showing(locks...),
	simPlain.shared(),
	simStorm.rough().shared().showing("transfer", "streams", "order", "flush", "close", "failure", "faults", "active messages", "put and get"),
})

// lanes are the groups in which it shows which lanes there are, how they were found, who
// sleeps on all of them, and what becomes of the others when one is lost.
var lanes = []string{"transfer", "order", "wireup", "addresses", "flush", "close", "worker close", "failure", "wakeup", "signals", "put and get"}

// narrows are those in which operations wait for room.
var narrows = []string{"transfer", "cancellation", "streams", "datatypes", "requests", "order", "flush", "close", "failure", "active messages", "put and get"}

// memories are those in which it shows how memory is registered, copied and reached.
var memories = []string{"transfer", "cancellation", "lengths", "datatypes", "requests", "wireup", "close", "failure", "faults", "active messages", "put and get", "atomics"}

// locks are those in which calls come from callbacks, threads wait, or workers end under them.
var locks = []string{"transfer", "cancellation", "completion", "requests", "waiting", "close", "worker close", "failure", "wakeup", "signals", "panics", "active messages", "put and get", "atomics"}

// inTurn deals turns out to those of a list that are like others of it.
func inTurn(list []transport) []transport {
	for i := range list {
		if list[i].few && list[i].name != rc.name && list[i].name != ud.name {
			list[i].turn = 1 + i
		}
	}
	return list
}

// turns is how many transports, of those that are like others, it takes for all variants of a
// test. Then each variant meets each kind of transport, but not each transport.
const turns = 3

// takes reports whether variant k of a test is the transport's turn. With needtest.Full all are.
func (tr transport) takes(k int) bool { return tr.turn == 0 || needtest.Full || (k+tr.turn)%turns == 0 }

// showing is the transport that runs these groups.
func (tr transport) showing(groups ...string) transport {
	tr.shows = groups
	return tr
}

// shared is the transport with workers in thread mode multi.
func (tr transport) shared() transport {
	tr.name += ", shared"
	tr.few, tr.mode = true, ucs.ThreadModeMulti
	return tr
}

// attended is one whose workers have a goroutine in the background.
func (tr transport) attended() transport {
	tr = tr.shared()
	tr.background = true
	return tr
}

// pairwise is the transport whose lanes are connected pairwise.
func (tr transport) pairwise() transport {
	tr.paired = true
	return tr
}

// with returns the transport with more settings.
func (tr transport) with(more ...setting) transport {
	tr.settings = slices.Concat(tr.settings, more)
	return tr
}

// peerMode is ErrModePeer where the transport can tell of lost peers.
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

// rig is the set of workers of a test. It watches the log and, when the test
// ends, closes what is open and looks for leaks.
type rig struct {
	testing.TB
	transport
	log    *logtest.Log
	sides  []*side
	keys   []*ucp.Rkey // to be closed at the end
	opened int         // workers
}

// side is a worker with a context of its own.
type side struct {
	*ucp.Worker
	rig *rig
	ctx *ucp.Context
	fd  int

	guest bool // the context is another side's

	unmap []*ucp.Memory // at the end
}

// endless is the length of a message that does not end while its receiver does not read: more
// than a kernel keeps for a connection from which nothing has been read.
const endless = 12 << 20

// features are what the suite asks for.
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
		r.log.Allow("interface not usable") // of sysv, where all transports are allowed
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

// open makes a worker.
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

// close closes worker and context; it may be called before the test ends.
func (s *side) close() {
	s.rig.Helper()
	s.fd = -1
	if err := s.Worker.Close(); err != nil {
		s.rig.Errorf("closing worker: %v", err)
	}
	s.Arm() // who sleeps on the descriptor comes back
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

// pair makes two workers that reach each other; on a loopback transport both are
// one.
func (r *rig) pair() (a, b *side) {
	r.Helper()
	a = r.open()
	if r.loopback {
		return a, a
	}
	return a, r.open()
}

// connect creates an endpoint that is left to the worker's Close.
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

// Bounds of waiting: rounds in which nothing happens, first busy ones, then ones
// that wait for an event of a worker for up to a millisecond.
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

// eventually progresses until cond holds and reports whether that came to pass.
func (r *rig) eventually(cond func() bool) bool {
	patience := spinRounds + waitRounds
	if r.silent {
		patience = spinRounds + 100*waitRounds
	}
	for idle := 0; idle < patience; {
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

// until is eventually, or the end of the test.
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

// settle progresses until nothing has happened for a while. The kernel may take a
// moment; the other transports do not. Timers of the transports may go on for
// ever, so there is an end to the moments, and to the rounds.
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

// overKernel reports whether the kernel carries any of what the workers say to each other.
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

// must is finish for operations that succeed.
func (r *rig) must(req *ucp.Request, err error) {
	r.Helper()
	if err := r.finish(req, err); err != nil {
		r.Fatal(err)
	}
}

// started is for operations that do not finish in the call.
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

// inTheCall is for operations that succeed in the call.
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

// warmTag labels messages of the harness itself.
const warmTag ucp.Tag = 0xFEED_0000_0000_0000

// warm brings the endpoint to the point where a short message goes in its call:
// it is connected and knows the peer.
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

// arrived waits until a message is there and has no receive.
func (r *rig) arrived(s *side, tag ucp.Tag) {
	r.Helper()
	r.until("a message without receive", func() bool {
		_, ok := s.TagPeek(tag, ucp.FullMask)
		return ok
	})
}

// outcome records what a callback was told.
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
