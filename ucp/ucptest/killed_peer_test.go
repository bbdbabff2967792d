//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// deathsVar is the environment variable with the number of pairs in TestKilledPeers, for its long
// form; deathsSeedVar has the first seed, to repeat a pair.
const (
	deathsVar     = "UCPTEST_DEATHS"
	deathsSeedVar = "UCPTEST_DEATHS_SEED"
)

// TestKilledPeers runs random operations with a peer that is stopped and killed at random times.
// Every operation ends exactly once, every close ends, and nothing is left.
func TestKilledPeers(t *testing.T) {
	needtest.Goroutines(t)
	pairs, first := 5*len(mortal), rand.Uint64N(1<<32)
	if n, err := strconv.Atoi(os.Getenv(deathsVar)); err == nil {
		pairs = n
	}
	if n, err := strconv.ParseUint(os.Getenv(deathsSeedVar), 10, 64); err == nil {
		first = n
	}
	counts := make(map[string]int)
	for k := range pairs {
		seed := first + uint64(k)
		tr := mortal[seed%uint64(len(mortal))]
		t.Run(fmt.Sprintf("%s/%d", tr.name, seed), func(t *testing.T) {
			x := newDeath(t, tr, rand.New(rand.NewPCG(seed, 1)))
			x.run()
			counts[x.cause.name]++
			counts["operations"] += len(x.ops)
		})
	}
	t.Logf("%d pairs: %v", pairs, counts)
}

// killedPair is a pair of peers, one of which is killed.
type killedPair struct {
	*rig
	random *rand.Rand
	mode   ucp.ErrMode
	d      *dyingProcess
	a      *side
	ep     *ucp.Endpoint
	key    *ucp.Rkey
	cause  cause
	tag    ucp.Tag
	ops    []*pendingOperation
	closes *pendingOperation
}

// pendingOperation is an operation with the peer that is about to be killed.
type pendingOperation struct {
	what string
	req  *ucp.Request
	out  outcome
	want int // number of callbacks wanted
	recv bool
}

// cause is how the peer ends.
type cause struct {
	name string
	run  func(x *killedPair)
}

var causes = []cause{
	{"killed", func(x *killedPair) { x.d.kill() }},
	{"stopped and killed", func(x *killedPair) {
		x.d.stop()
		x.some()
		x.d.kill()
	}},
	{"killed while we close", func(x *killedPair) {
		x.close()
		x.rounds()
		x.d.kill()
	}},
	{"stopped while we close, and killed", func(x *killedPair) {
		x.d.stop()
		x.close()
		x.rounds()
		x.d.kill()
	}},
	{"killed with half of what it has read", func(x *killedPair) {
		x.d.do("pause")
		x.some()
		x.d.kill()
	}},
	{"stopped for a while", func(x *killedPair) {
		x.d.stop()
		x.some()
		x.settle()
		if err := x.ep.Err(); err != nil {
			x.Errorf("a peer that is stopped is lost: %v", err)
		}
		x.d.resume()
		x.d.do("recv %d 8", warmTag)
		sent, err := x.ep.TagSendSync(warmTag, nil, nil)
		if err != nil {
			x.Fatal(err)
		}
		x.ends("a message after that", sent.Done)
		if err := sent.Err(); err != nil {
			x.Errorf("a message after that: %v", err)
		}
		x.d.kill()
	}},
	{"closes its end, and is killed", func(x *killedPair) {
		x.d.do("close")
		x.some()
		x.d.kill()
	}},
	{"we close at once, and it is killed", func(x *killedPair) {
		if err := x.ep.Close(); err != nil {
			x.Error(err)
		}
		x.rounds()
		x.d.kill()
	}},
	{"ends by itself", func(x *killedPair) {
		x.d.do("exit")
		x.some()
		x.d.kill()
	}},
}

func newDeath(t *testing.T, tr transport, random *rand.Rand) *killedPair {
	if random.IntN(2) == 0 {
		tr = tr.with(setting{"RNDV_THRESH", "inf"})
	}
	x := &killedPair{random: random, cause: causes[random.IntN(len(causes))], mode: ucp.ErrMode(random.IntN(2))}
	x.rig = newRig(t, tr.with(soon))
	x.log.Allow("")
	x.d = x.doomed()
	if pid := x.d.cmd.Process.Pid; strings.Contains(tr.name, "sysv") || tr.name == "all" {
		t.Cleanup(func() { noSegmentsOf(t, pid) })
	}
	return x
}

// noSegmentsOf checks that a process and the test have left no System V segments.
func noSegmentsOf(t *testing.T, pid int) {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == strconv.Itoa(pid) || f[4] == strconv.Itoa(os.Getpid())) && f[6] == "0" {
			t.Errorf("left behind: %s", line)
		}
	}
}

func (x *killedPair) run() {
	var err error
	if x.random.IntN(6) > 0 {
		x.a, x.ep = x.survivor(x.d, x.mode)
	} else { // killed before the two sides know each other
		x.cause = causes[x.random.IntN(2)]
		x.a = x.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
		if x.ep, err = x.a.NewEndpoint(ucp.EndpointParams{Address: x.d.address, ErrMode: x.mode}); err != nil {
			x.Fatal(err)
		}
	}
	if x.key, err = x.ep.UnpackRkey(x.d.key); err != nil {
		x.Fatal(err)
	}
	x.keys = append(x.keys, x.key)
	x.Logf("%s, mode %d", x.cause.name, x.mode)
	x.some()
	x.cause.run(x)
	if x.closes == nil && x.random.IntN(2) == 0 {
		x.some()
	}
	x.mourn()
}

// rounds progresses for a random number of rounds.
func (x *killedPair) rounds() {
	for range x.random.IntN(40) {
		x.progress()
	}
}

// some starts a few random operations.
func (x *killedPair) some() {
	for range 1 + x.random.IntN(6) {
		x.start()
		x.rounds()
	}
}

// start starts a random operation.
func (x *killedPair) start() {
	size := []int{0, 8, 3000, 100_000, 1 << 20, doomedMemory}[x.random.IntN(6)]
	x.tag++
	o := &pendingOperation{want: 1}
	x.ops = append(x.ops, o)
	p := &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.out.onSend}
	alive := !x.d.ended && x.closes == nil && x.random.IntN(2) == 0
	var err error
	switch kind := x.random.IntN(8); kind {
	case 0, 1:
		o.what = "send"
		o.req, err = x.ep.TagSend(x.tag, make([]byte, size), p)
	case 2:
		o.what = "synchronous send"
		o.req, err = x.ep.TagSendSync(x.tag, make([]byte, size), p)
	case 3:
		o.what = "put"
		o.req, err = x.ep.Put(make([]byte, max(size, 1)), x.d.memory, x.key, p)
	case 4:
		o.what = "get"
		o.req, err = x.ep.Get(make([]byte, max(size, 1)), x.d.memory, x.key, p)
	case 5:
		o.what, size = "atomic", 8
		p.ReplyBuffer = make([]byte, size)
		o.req, err = x.ep.Atomic(ucp.AtomicAdd, make([]byte, size), x.d.memory, x.key, p)
	case 6:
		o.what = "flush"
		o.req, err = x.ep.Flush(p)
	case 7:
		o.what, o.recv = "receive", true
		o.req, err = x.a.TagRecv(x.tag, ucp.FullMask, make([]byte, size), &ucp.RequestParams{OnTagRecv: o.out.onRecv})
		x.tell(alive, "send", size)
	}
	o.what = fmt.Sprintf("%s of %d bytes", o.what, size)
	if err != nil { // the peer is already lost
		o.want = 0
		if !errors.Is(err, ucs.ErrConnectionReset) && x.ep.Err() == nil && x.cause.name != "we close at once, and it is killed" {
			x.Errorf("%s: %v", o.what, err)
		}
		return
	}
	if strings.HasSuffix(o.what, "bytes") && !o.recv && strings.Contains(o.what, "send") {
		x.tell(alive, "recv", size)
	}
}

// tell has the peer do its part of an operation, if it can.
func (x *killedPair) tell(alive bool, what string, size int) {
	if alive && x.may() {
		fmt.Fprintf(x.d.in, "%s %d %d\n", what, x.tag, size)
		x.d.unheard++
	}
}

// may reports whether the peer still reads commands. Its answers are not awaited.
func (x *killedPair) may() bool { return !x.d.ended && x.d.unheard < 16 }

// close starts to close the endpoint.
func (x *killedPair) close() {
	o := &pendingOperation{what: "close", want: 1}
	var err error
	if o.req, err = x.ep.CloseAsync(&ucp.RequestParams{OnSend: o.out.onSend}); err != nil && !errors.Is(err, ucs.ErrConnectionReset) {
		x.Fatal(err)
	}
	if o.req == nil { // closed in the call, maybe because it noticed that the peer is lost
		o.want = 0
	}
	x.closes = o
}

// mourn checks that everything has ended.
func (x *killedPair) mourn() {
	for _, o := range x.ops {
		if !o.recv {
			x.ends(o.what, o.req.Done)
		}
	}
	if x.closes == nil && x.cause.name != "we close at once, and it is killed" {
		x.close()
	}
	if x.closes != nil {
		x.ends("the close", x.closes.req.Done)
		x.ops = append(x.ops, x.closes)
	}
	x.ends("the last endpoint", func() bool { return x.a.Stats().Endpoints == 0 })
	for _, o := range x.ops {
		if o.recv {
			x.a.Cancel(o.req) // its message never arrived, or not all of it
			x.ends(o.what, o.req.Done)
		}
	}
	x.settle()
	for _, o := range x.ops {
		if o.out.calls != o.want {
			x.Errorf("%s: the callback ran %d times, want %d", o.what, o.out.calls, o.want)
		}
		if o.req != nil && o.want > 0 {
			o.req.Free()
		}
	}
}
