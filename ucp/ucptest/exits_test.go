//go:build linux

package ucptest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// The kernel reports the exit of a process: the keepalive is off here.

var never = setting{"KEEPALIVE_INTERVAL", "inf"}

// eachShared runs a test over the transports with shared memory, without a keepalive.
func eachShared(t *testing.T, modes []ucp.ErrMode, test func(r *rig, mode ucp.ErrMode), more ...setting) {
	for _, tr := range mortal {
		if strings.Contains(tr.name, "posix") || strings.Contains(tr.name, "sysv") {
			for _, mode := range modes {
				t.Run(tr.name+"/"+[...]string{"no mode", "peer"}[mode], func(t *testing.T) {
					r := newRig(t, tr.with(append(more, never)...))
					r.log.Allow("the peer has probably died") // it may die while filling an element
					test(r, mode)
				})
			}
		}
	}
}

// awake progresses, and sleeps when there is nothing to do, until cond holds.
func (s *side) awake(what string, cond func() bool) {
	s.rig.Helper()
	for limit := time.Now().Add(endLimit); !cond(); {
		if time.Now().After(limit) {
			s.rig.Fatalf("it does not end: %s", what)
		}
		if err := s.Wait(context.Background()); err != nil {
			s.rig.Fatal(err)
		}
		for s.Progress() > 0 {
		}
	}
}

// TestExitEndsOperations checks that all operations that wait for a peer end, and that the endpoint
// fails, when the peer's process exits, whether the worker sleeps or not.
func TestExitEndsOperations(t *testing.T) {
	for _, asleep := range []bool{false, true} {
		eachShared(t, bothModes, func(r *rig, mode ucp.ErrMode) {
			d := r.doomed()
			a, ep := r.survivor(d, mode)
			key, err := ep.UnpackRkey(d.key)
			if err != nil {
				r.Fatal(err)
			}
			r.keys = append(r.keys, key)
			d.do("pause")
			var list []*ucp.Request
			start := func(req *ucp.Request, err error) {
				r.Helper()
				if err != nil {
					r.Fatal(err)
				}
				if req != nil {
					list = append(list, req)
				}
			}
			start(ep.TagSendSync(100, make([]byte, 8), nil))
			start(ep.TagSendSync(100, make([]byte, 30_000), nil))
			start(ep.TagSend(100, make([]byte, 4<<20), nil))
			start(ep.Get(make([]byte, doomedMemory), d.memory, key, nil))
			start(ep.Put(make([]byte, doomedMemory), d.memory, key, nil))
			start(ep.Flush(nil))
			d.kill()
			for _, req := range list {
				if asleep {
					a.awake("an operation", req.Done)
				} else {
					r.ends("an operation", req.Done)
				}
				if err := req.Err(); err != nil {
					ucttest.WantStatus(r, "an operation", err, ucs.ErrConnectionReset)
				}
				req.Free()
			}
			r.ends("the endpoint", func() bool { return ep.Err() != nil })
			ucttest.WantStatus(r, "the endpoint", ep.Err(), ucs.ErrConnectionReset)
		})
	}
}

// TestExitEndsMessage checks that the receive of an incomplete message ends when the only process
// that could send the rest exits.
func TestExitEndsMessage(t *testing.T) {
	eachShared(t, []ucp.ErrMode{ucp.ErrModePeer}, func(r *rig, mode ucp.ErrMode) {
		d := r.doomed()
		a, _ := r.survivor(d, mode)
		const tag = 77
		recv, err := a.TagRecv(tag, ucp.FullMask, make([]byte, 8<<20), nil)
		if err != nil {
			r.Fatal(err)
		}
		d.do("send %d %d", tag, 8<<20) // more than the ring holds
		d.kill()
		a.awake("the receive", recv.Done)
		ucttest.WantStatus(r, "the receive", recv.Err(), ucs.ErrConnectionReset)
		recv.Free()
	}, setting{"RNDV_THRESH", "inf"})
}

// TestDeadlineNamesTheWait checks that the error of a call that is never answered, because the peer
// refuses or does not progress, names what the call was waiting for when its deadline passes.
func TestDeadlineNamesTheWait(t *testing.T) {
	eachShared(t, []ucp.ErrMode{ucp.ErrModePeer}, func(r *rig, mode ucp.ErrMode) {
		for _, mt := range []ucs.ThreadMode{ucs.ThreadModeSingle, ucs.ThreadModeMulti} {
			a, b := r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{ThreadMode: mt}), r.open()
			ep, err := a.NewEndpoint(ucp.EndpointParams{Address: b.address(), ErrMode: mode})
			if err != nil {
				r.Fatal(err)
			}
			ctx, stop := context.WithTimeout(context.Background(), time.Millisecond)
			err = ep.TagSendSyncWait(ctx, 1, make([]byte, 8))
			stop()
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ucs.ErrCanceled) || !strings.Contains(err.Error(), "has not answered the wireup request over ") {
				r.Errorf("%v: %v", mt, err)
			}
		}
	})
}
