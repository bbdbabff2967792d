//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestMultiConnections: goroutines connect, send and close at the same time, while other goroutines
// accept or reject their requests, on two workers.
func TestMultiConnections(t *testing.T) {
	for _, tr := range []transport{connTransports[0].shared(), connTransports[2].shared()} {
		t.Run(tr.name, func(t *testing.T) {
			const clients, rounds, accepters = 4, 10, 2
			r := newRig(t, tr)
			c, s := r.open(), r.open()
			other := s.onAlso()
			requests := make(chan *ucp.ConnRequest, clients*rounds)
			l, err := s.NewListener(ucp.ListenerParams{Addr: tr.anyPort(t), OnConnRequest: func(q *ucp.ConnRequest) { requests <- q }})
			if err != nil {
				t.Fatal(err)
			}
			stops := []func(){c.leads(), s.leads(), other.leads()}
			var accepting, calling group
			for k := range accepters {
				accepting.Go(func() {
					n := 0
					for q := range requests {
						if n++; n%5 == 0 {
							if err := l.Reject(q); err != nil && !errors.Is(err, ucs.ErrCanceled) {
								t.Errorf("reject: %v", err)
							}
							continue
						}
						on := []*side{s, other}[k%2]
						_, err := on.NewEndpoint(ucp.EndpointParams{ConnRequest: q, ErrMode: ucp.ErrModePeer, OnError: func(ep *ucp.Endpoint, _ error, _ any) {
							if _, err := ep.CloseAsync(nil); err != nil {
								t.Errorf("close of an end whose peer has gone: %v", err)
							}
						}})
						if err != nil && !errors.Is(err, ucs.ErrCanceled) {
							t.Errorf("accept: %v", err)
						}
					}
				})
			}
			for k := range clients {
				calling.Go(func() {
					for n := range rounds {
						if err := callOnce(t.Context(), c, l, (k+n)%3); err != nil {
							t.Error(err)
						}
					}
				})
			}
			calling.Wait()
			if err := l.Close(); err != nil { // clients that left may still have requests in flight
				t.Errorf("closing the listener: %v", err)
			}
			close(requests)
			accepting.Wait()
			for _, stop := range stops {
				stop()
			}
			r.until("the ends", func() bool { return s.Stats().Endpoints+other.Stats().Endpoints == 0 })
			r.endpoints(0, c)
		})
	}
}

// callOnce connects, sends a message and ends the connection in one of three ways.
func callOnce(ctx context.Context, c *side, l *ucp.Listener, way int) error {
	ep, err := c.NewEndpoint(ucp.EndpointParams{RemoteAddr: l.Addr(), ErrMode: ucp.ErrModePeer})
	if err != nil {
		return err
	}
	if way == 0 {
		return ep.Close() // without waiting for the connection
	}
	err = ep.TagSendWait(ctx, 1, make([]byte, 100))
	if err == nil && way == 2 {
		err = ep.FlushWait(ctx)
	}
	if err == nil {
		return ep.Shutdown(ctx)
	}
	if !errors.Is(err, ucs.ErrRejected) {
		return fmt.Errorf("a call of kind %d: %w", way, err)
	}
	return ep.Close()
}
