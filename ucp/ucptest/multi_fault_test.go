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
// whether its message was matched. A send that reports a match is right, and no message arrives
// twice.
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
	for seq := range steps() {
		if n := got[seq]; n > 1 || n == 0 && f.matched[seq] {
			f.Errorf("message %d of %d was received %d times; matched, as its sender was told: %v", seq, f.n, n, f.matched[seq])
		}
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
// is not counted.
func (f *faulted) receive(ctx context.Context) map[int]int {
	got := make(map[int]int)
	for {
		buf := make([]byte, longestText)
		info, err := f.b.TagRecvWait(ctx, streamOf(f.n), streamMask, buf)
		switch {
		case ctx.Err() != nil && err != nil:
			return got
		case err != nil && !errors.Is(err, ucs.ErrConnectionReset) && !errors.Is(err, ucs.ErrCanceled):
			f.Errorf("a receive: %v", err)
			return got
		case err == nil:
			n, seq := headOf(buf[:info.Length])
			if n != f.n {
				f.Errorf("a message of %d came to %d", n, f.n)
			}
			got[seq]++
		}
		runtime.Gosched()
	}
}
