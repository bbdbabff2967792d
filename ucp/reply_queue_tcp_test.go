package ucp

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// overTCP opens two workers with small socket buffers, each with an endpoint to the other.
func overTCP(t *testing.T, settings ...[2]string) (w [2]*Worker, ep [2]*Endpoint) {
	t.Helper()
	logtest.Watch(t)
	for i := range w {
		cfg, err := ReadConfig("", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range append([][2]string{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}, {"TCP_SNDBUF", "8k"}, {"TCP_RCVBUF", "8k"}, {"RNDV_THRESH", "inf"}}, settings...) {
			if err := cfg.Modify(s[0], s[1]); err != nil {
				t.Fatal(err)
			}
		}
		ctx, err := NewContext(ContextParams{Features: FeatureTag | FeatureStream}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ctx.Close() })
		if w[i], err = ctx.NewWorker(WorkerParams{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w[i].Close() })
	}
	for i := range w {
		var err error
		if ep[i], err = w[i].NewEndpoint(EndpointParams{Address: w[1-i].own.address, ErrMode: ErrModePeer}); err != nil {
			t.Fatal(err)
		}
	}
	return w, ep
}

// hangs is how long a test waits without any progress before it gives up.
const hangs = 20 * time.Second

// progressed progresses workers until cond holds, or until nothing has happened for the time hangs.
// It returns cond.
func progressed(w [2]*Worker, cond func() bool) bool {
	for since := time.Now(); time.Since(since) < hangs; {
		if cond() {
			return true
		}
		if w[0].Progress()+w[1].Progress() > 0 {
			since = time.Now()
		}
	}
	return cond()
}

// settle progresses workers until nothing happens. Data that the kernel delays may still arrive.
func settle(w [2]*Worker) {
	for idle := 0; idle < 20_000; idle++ {
		if w[0].Progress()+w[1].Progress() > 0 {
			idle = 0
		}
	}
}

// TestFloodOfAcknowledged: one peer or both send synchronous messages, far more than connections
// and limits hold, while one of them makes less progress. All messages arrive. The test would hang
// if both peers stopped reading, or if acknowledgements waited behind messages that are held up
// themselves.
func TestFloodOfAcknowledged(t *testing.T) {
	needtest.Goroutines(t)
	if testing.Short() {
		t.Skip("connections by the thousand")
	}
	n := 100_000
	if race.Enabled {
		n = 10_000
	}
	for _, both := range []bool{false, true} {
		// The slow worker progresses less often. A slow sole sender does not read for a while.
		for _, slow := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("both %v, slow %d", both, slow), func(t *testing.T) {
				w, ep := overTCP(t)
				var left [2]int // pending operations by worker
				for i := range w {
					w[i].accounts.Limits.StopReplies = 1 << 10
					i := i
					count := func(err error) {
						if err != nil {
							t.Errorf("worker %d: %v", i, err)
						}
						left[i]--
					}
					recvd := &RequestParams{Flags: OpNoImmediate, OnTagRecv: func(r *Request, err error, _ TagRecvInfo, _ any) { count(err); r.Free() }}
					sent := &RequestParams{Flags: OpNoImmediate, OnSend: func(r *Request, err error, _ any) { count(err); r.Free() }}
					for range n {
						if both || i == 1 {
							left[i]++
							if _, err := w[i].TagRecv(1, FullMask, nil, recvd); err != nil {
								t.Fatal(err)
							}
						}
						if both || i == 0 {
							left[i]++
							if _, err := ep[i].TagSendSync(1, nil, sent); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				var deaf uct.Connection
				idle := 0
				for round := 0; left != [2]int{} && idle < 1_000_000; round++ {
					idle++
					for i := range w {
						if (i != slow || round%64 == 0) && w[i].Progress() > 0 {
							idle = 0
						}
					}
					switch {
					case both || slow != 0:
					case deaf == nil && left[1] < n:
						deaf = ep[0].lanes[0].uct.(uct.NetworkEndpoint).Source().Owner.(uct.Connection)
						deaf.PauseSource()
					case w[1].stats.Paused == 1 && deaf != nil:
						if w[1].endpoints.Len() != 1 {
							t.Fatal("the endpoint is gone")
						}
						deaf.ResumeSource()
					}
				}
				if left != [2]int{} {
					t.Errorf("%v operations do not end: %+v, %+v", left, w[0].Stats(), w[1].Stats())
				}
				paused := w[0].stats.Paused + w[1].stats.Paused
				if !both && slow == 0 && paused == 0 {
					t.Error("nobody ever stopped reading: the test tests nothing")
				}
				t.Logf("stopped reading %d times, %d answers waited", paused, w[0].stats.Pending+w[1].stats.Pending)
			})
		}
	}
}

// TestClientsComeAndGo checks that a server over tcp keeps nothing of clients that come and go,
// whether they leave in order or in the middle of an exchange.
func TestClientsComeAndGo(t *testing.T) {
	needtest.Goroutines(t)
	if testing.Short() {
		t.Skip("connections by the thousand")
	}
	w, _ := overTCP(t)
	server := w[0]
	sizes := func() [6]int {
		s := server.Stats()
		return [6]int{server.accounts.Len(), s.Sources, server.peers.Len(), s.Endpoints, len(server.eager.assemblies), server.wireups.unexpected}
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for range 10_000_000 {
			if done() {
				return
			}
			server.Progress()
		}
		t.Fatalf("%s: %+v, %v", what, server.Stats(), sizes())
	}
	ctx := w[1].ctx
	accounts := ledger.OpenAccounts()
	before := sizes()
	for i := range 2000 {
		c, err := ctx.NewWorker(WorkerParams{})
		if err != nil {
			t.Fatal(err)
		}
		ep, err := c.NewEndpoint(EndpointParams{Address: server.own.address, ErrMode: ErrModePeer})
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 { // waits for an acknowledgement, over an endpoint of the server
			if _, err := ep.TagSendSync(1, make([]byte, 100), nil); err != nil {
				t.Fatal(err)
			}
		} else if _, err := ep.TagSend(1, make([]byte, 100), nil); err != nil {
			t.Fatal(err)
		}
		until("the message", func() bool {
			c.Progress()
			_, found := server.TagPeek(1, FullMask)
			return found
		})
		if i%2 == 0 {
			if _, err := server.TagRecv(1, FullMask, make([]byte, 100), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		until("the end of the client", func() bool { return server.Stats().Endpoints == before[3] })
		if i%2 != 0 {
			if _, err := server.TagRecv(1, FullMask, make([]byte, 100), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	until("the end of all", func() bool { return sizes() == before && ledger.OpenAccounts() <= accounts+1 }) // that of the other worker
}

// TestKnownByLane checks that a sender counts as a known peer if the application has an endpoint to
// it, even if no endpoint ids were ever exchanged.
func TestKnownByLane(t *testing.T) {
	w, ep := overTCP(t)
	if _, err := ep[1].TagSend(1, make([]byte, 100), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ep[0].TagSend(1, make([]byte, 100), nil); err != nil {
		t.Fatal(err)
	}
	for i := range w {
		for found := false; !found; _, found = w[i].TagPeek(1, FullMask) {
			w[0].Progress()
			w[1].Progress()
		}
	}
	for i := range w {
		if p := w[i].Peers(); len(p) != 1 || !p[0].Known || p[0].UID != os.Getuid() && p[0].UID != -1 || p[0].Bytes < 100 {
			t.Errorf("worker %d: %+v", i, p)
		}
		ep[i].Close()
	}
	for i := range w {
		if p := w[i].Peers(); len(p) != 1 || p[0].Known || w[i].accounts.unbound != 0 {
			t.Errorf("worker %d, without an endpoint: %+v, %d untied", i, p, w[i].accounts.unbound)
		}
	}
}

// TestConnectedAwaitsNothing: two workers ask each other for an endpoint id at the same time. One
// request gets no reply, as the other worker's request already has the id. Neither worker may count
// as waiting for its peer then, or it could never stop reading from it.
func TestConnectedAwaitsNothing(t *testing.T) {
	w, ep := overTCP(t)
	for i := range ep {
		req, err := ep[i].TagSendSync(1, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		recv, err := w[i].TagRecv(1, FullMask, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if !req.Done() || !recv.Done() {
				t.Error("the messages did not get through")
			}
		})
	}
	progressed(w, func() bool {
		return ep[0].remoteID != 0 && ep[1].remoteID != 0 && !ep[0].w.ends.unanswered(ep[0]) && !ep[1].w.ends.unanswered(ep[1])
	})
	for i := range ep {
		if ep[i].w.replies.awaits(ep[i]) {
			t.Errorf("worker %d waits for its peer, with state %b", i, ep[i].state)
		}
	}
}
