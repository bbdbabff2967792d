//go:build linux

package ucptest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// TestMultiFaults: all connections break again and again. Every send ends, and its result says
// whether its message was matched. A send that reports a match is right: its message is received, or
// its receive fails because the connection has broken while the rest of the message was on its way. No
// message arrives twice.
func TestMultiFaults(t *testing.T) {
	r := newRig(t, simPlain.shared())
	ops := 0
	simPlain.sim.inject(t, func(fault.Op) (none fault.Effect) {
		if ops++; ops%97 == 0 {
			return fault.Effect{Drop: ucs.ErrConnectionReset}
		}
		return none
	})
	a, b := r.pair()
	defer a.leads()()
	defer b.leads()()
	var g group
	const streams = 16
	for n := range streams {
		f := &faulted{rig: r, a: a, b: b, n: n, matched: make(map[int]bool)}
		g.Go(f.run)
	}
	g.Wait()
	if a.Stats().Failures == 0 {
		t.Error("no connection has failed: the test tests nothing")
	}
}

// faulted is a stream of messages whose connections break.
type faulted struct {
	*rig
	a, b    *side
	n       int
	matched map[int]bool // messages whose send reported a match
	broken  int          // matched receives that failed with their connection
}

func (f *faulted) run() {
	ctx, over := context.WithCancel(context.Background())
	received := make(chan map[int]int)
	go func() { received <- f.receive(ctx) }()
	for seq := range steps() {
		f.send(seq)
	}
	over()
	got := <-received
	missing := 0
	for seq := range steps() {
		switch n := got[seq]; {
		case n > 1:
			f.Errorf("message %d of %d was received %d times", seq, f.n, n)
		case n == 0 && f.matched[seq]:
			missing++
		}
	}
	if missing > f.broken {
		f.Errorf("stream %d: %d messages were matched, as their senders were told, but not received; %d receives have failed", f.n, missing, f.broken)
	}
}

// send sends a message over an endpoint of its own, whose connection may break before or during the
// send.
func (f *faulted) send(seq int) {
	ep, err := f.a.NewEndpoint(ucp.EndpointParams{Address: f.b.address(), ErrMode: ucp.ErrModePeer})
	if err != nil {
		f.Errorf("endpoint: %v", err)
		return
	}
	b := make([]byte, lengths[(f.n+seq)%len(lengths)])
	head(b, f.n, seq)
	err = ep.TagSendSyncWait(context.Background(), streamOf(f.n), b)
	if f.matched[seq] = err == nil; err != nil && ep.Err() == nil {
		f.Errorf("a send has failed, its endpoint has not: %v", err)
	}
	if err := ep.Close(); err != nil {
		f.Errorf("closing an endpoint: %v", err)
	}
}

// receive counts the messages until ctx ends. A message whose connection has broken in the middle
// is counted in f.broken only.
func (f *faulted) receive(ctx context.Context) map[int]int {
	got := make(map[int]int)
	for {
		buf := make([]byte, longestText)
		info, err := f.b.TagRecvWait(ctx, streamOf(f.n), streamMask, buf)
		switch {
		case ctx.Err() != nil && err != nil:
			if f.matched[steps()-1] {
				f.broken++ // ctx may have ended while the rest of the last message was on its way
			}
			return got
		case err != nil && !errors.Is(err, ucs.ErrConnectionReset) && !errors.Is(err, ucs.ErrCanceled):
			f.Errorf("a receive: %v", err)
			return got
		case err != nil:
			f.broken++
		default:
			n, seq := headOf(buf[:info.Length])
			if n != f.n {
				f.Errorf("a message of %d came to %d", n, f.n)
			}
			got[seq]++
		}
		runtime.Gosched()
	}
}
