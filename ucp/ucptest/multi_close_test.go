//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// closings are ways to end a worker, or its endpoint first, while everything is in flight.
var closings = []struct {
	name string
	end  func(c *closer) error
}{
	{"worker close", func(c *closer) error { return c.a.Worker.Close() }},
	{"worker shutdown", func(c *closer) error { return c.a.Worker.Shutdown(context.Background()) }},
	{"worker shutdown given up", func(c *closer) error {
		if err := c.a.Worker.Shutdown(ended()); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return c.a.Worker.Close()
	}},
	{"endpoint close", func(c *closer) error { return errors.Join(c.ep.Close(), c.a.Worker.Close()) }},
	{"endpoint shutdown", func(c *closer) error {
		err := c.ep.Shutdown(context.Background())
		return errors.Join(c.closed("Endpoint.Shutdown", err), c.a.Worker.Close())
	}},
}

// TestMultiClose checks that all calls in progress return with a proper error when a worker ends.
func TestMultiClose(t *testing.T) {
	for _, name := range []string{"self", "posix", "tcp", "sim"} {
		for _, how := range closings {
			t.Run(name+"/"+how.name, func(t *testing.T) {
				for range long(4, 2) {
					closedTogether(t, byName(t, name), how.end)
				}
			})
		}
	}
}

// closedTogether has goroutines make all calls on a worker over a transport, and ends it.
func closedTogether(t *testing.T, tr transport, end func(c *closer) error) {
	r := newRig(t, tr.shared())
	a, b := r.oneSidedPair()
	r.log.Allow("no reverse path to a peer") // the peer was just closed
	c := &closer{rig: r, a: a, ep: a.connect(b)}
	c.at = r.unpack(c.ep, b.expose(make([]byte, 1<<16), 0))
	stop := func() {}
	if a != b {
		stop = b.leads()
	}
	var taking group
	var ended atomic.Bool
	taking.Go(func() { // a shutdown waits until its messages are received
		for !ended.Load() {
			m, _ := b.TagTake(0, 0)
			m.Discard()
			runtime.Gosched()
		}
	})
	c.run(end)
	ended.Store(true)
	taking.Wait()
	stop()
	for _, s := range r.sides {
		s.close()
	}
	r.sides, r.keys = nil, nil
}

type closer struct {
	*rig
	a  *side
	ep *ucp.Endpoint
	at window // memory of the other side

	busy   atomic.Int64 // goroutines that have made a first call, or one that waits
	ending atomic.Bool  // the end may have begun
}

// waitless are the calls that do not wait.
var waitless = []string{"TagSend", "TagRecv", "Fence", "NewEndpoint", "TagTake", "queries"}

// closed accepts the errors that calls return on a closed worker.
func (c *closer) closed(what string, err error) error {
	for _, may := range []error{ucs.ErrCanceled, ucs.ErrInvalidParam, ucs.ErrNotConnected, ucs.ErrBusy} {
		if errors.Is(err, may) {
			return nil
		}
	}
	if err != nil {
		c.Errorf("%s: %v", what, err)
	}
	return nil
}

// run has goroutines make all calls again and again until these fail, while several goroutines end
// the worker.
func (c *closer) run(end func(*closer) error) {
	ctx := context.Background()
	a, ep := c.a, c.ep
	addr := a.address()
	var made, sent atomic.Int64
	calls := map[string]func() error{
		"TagRecvWait":     func() error { _, err := a.TagRecvWait(ctx, emptyStream, ucp.FullMask, nil); return err },
		"TagSendSyncWait": func() error { return ep.TagSendSyncWait(ctx, 1, nil) },
		"TagSendWait":     func() error { return ep.TagSendWait(ctx, 2, make([]byte, 100)) },
		"a large message": func() error { return ep.TagSendWait(ctx, 3, make([]byte, longestText)) },
		"TagSend": func() error {
			if sent.Add(1) > 100 { // else it sends faster than the peer receives
				return a.Fence()
			}
			req, err := ep.TagSend(4, make([]byte, 9000), nil)
			req.Free()
			return err
		},
		"TagRecv": func() error {
			req, err := a.TagRecv(emptyStream, ucp.FullMask, nil, nil)
			if err != nil {
				return err
			}
			a.Cancel(req)
			if err := req.Wait(ctx); !errors.Is(err, ucs.ErrCanceled) {
				return fmt.Errorf("a receive that was canceled: %w", err)
			}
			return a.Fence()
		},
		"Request.Wait": func() error {
			req, err := a.TagRecv(emptyStream, ucp.FullMask, nil, &ucp.RequestParams{OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) { a.Progress() }})
			if err != nil {
				return err
			}
			return req.Wait(ctx)
		},
		"PutWait":          func() error { return ep.PutWait(ctx, make([]byte, 100), c.at.addr, c.at.key) },
		"FlushWait":        func() error { return ep.FlushWait(ctx) },
		"Worker.FlushWait": func() error { return a.FlushWait(ctx) },
		"Fence":            a.Fence,
		"Run":              func() error { return a.Run(ctx) },
		"Wait": func() error {
			for a.Progress() > 0 {
			}
			return a.Worker.Wait(ctx)
		},
		"NewEndpoint": func() error {
			if made.Add(1) > 100 { // Shutdown needs a moment without endpoints
				return a.Fence()
			}
			ep, err := a.NewEndpoint(ucp.EndpointParams{Address: addr})
			if err != nil {
				return err
			}
			return ep.Close()
		},
		"TagTake": func() error {
			m, _ := a.TagTake(0, 0)
			m.Discard()
			return a.Fence()
		},
		"queries": func() error {
			a.Stats()
			ep.Attr()
			ep.Explain()
			a.Peers()
			_, err := a.EventFD()
			return err
		},
	}
	var callers, enders group
	for name, call := range calls {
		for range 3 {
			callers.Go(func() {
				var err error
				if slices.Contains(waitless, name) {
					err = call()
				}
				c.busy.Add(1)
				for err == nil {
					err = call()
				}
				if !c.ending.Load() {
					c.Errorf("%s, before anything was ended: %v", name, err)
				}
				c.closed(name, err)
			})
		}
	}
	callers.Go(func() { c.closed("a poller", driveOutside(ctx, a)) })
	for c.busy.Load() < int64(3*len(calls)) {
		runtime.Gosched()
	}
	c.ending.Store(true)
	for range 4 {
		enders.Go(func() {
			if err := end(c); err != nil {
				c.Errorf("closing: %v", err)
			}
		})
	}
	enders.Wait()
	callers.Wait()
}
