//go:build linux

package ucptest

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Workers over RDMA devices in thread mode multi, which many goroutines use at once.

// patient returns the transport with long timeouts, so that no peer counts as lost because its
// goroutines do not get the CPU.
func (tr transport) patient() transport {
	return tr.with(setting{"UD_TIMEOUT", "30s"}, setting{"KEEPALIVE_INTERVAL", "1s"})
}

// TestMultiRDMA is a short TestMulti over rc, ud and both.
func TestMultiRDMA(t *testing.T) {
	for _, tr := range overRDMA {
		t.Run(tr.name, func(t *testing.T) {
			for _, d := range drivers {
				if d.name == "waiters" && !race.Enabled || d.name == "all" {
					t.Run(d.name, func(t *testing.T) {
						c := newCrowd(t, tr.patient())
						c.steps = 3
						c.run(d.list...)
					})
				}
			}
		})
	}
}

var overRDMA = []transport{rc, ud, onFabric("ib", "ib").pairwise()}

// TestFourMultiRDMA: four goroutines on each of two workers send and receive tagged messages of
// every length at the same time, and each gets its own, whole and in order. Only the waiting
// goroutines progress the workers.
func TestFourMultiRDMA(t *testing.T) {
	for _, tls := range []string{"rc", "ud", "ib"} {
		t.Run(tls, func(t *testing.T) {
			tr := onFabric(tls, tls).patient().shared()
			tr.paired = tls != "ud"
			r := newRig(t, tr)
			a, b := r.pair()
			over, stop := context.WithCancel(t.Context())
			defer stop()
			var busy atomic.Int64
			var sides group
			busy.Store(2)
			for k, s := range []*side{a, b} {
				ep := s.connectWith([]*side{b, a}[k], ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
				sides.Go(func() {
					var four group
					for g := range ucp.Tag(4) {
						four.Go(func() {
							if err := chat(over, s, ep, g, uint64(k)); err != nil {
								t.Errorf("goroutine %d at side %d: %v", g, k, err)
								stop()
							}
						})
					}
					four.Wait()
					if busy.Add(-1) == 0 {
						stop()
					}
					s.Run(over) // progresses for the other side
				})
			}
			sides.Wait()
			r.clean(a, b)
		})
	}
}

// chat sends messages with a tag and receives as many from the peer, which does the same. end is 0
// or 1.
func chat(ctx context.Context, s *side, ep *ucp.Endpoint, tag ucp.Tag, end uint64) error {
	rounds := 8
	if race.Enabled {
		rounds = 3
	}
	for k := range rounds {
		for _, n := range []int{0, 8, 2000, 9000, 60_000, 300_000} {
			seed := uint64(tag)<<32 + uint64(k)<<8
			buf := make([]byte, n)
			var info ucp.TagRecvInfo // for a message that has already arrived
			recv, err := s.TagRecv(tag, ucp.FullMask, buf, &ucp.RequestParams{TagInfo: &info})
			if err != nil {
				return err
			}
			if err := ep.TagSendWait(ctx, tag, ucttest.Pattern(n, seed+end)); err != nil {
				return err
			}
			if recv != nil {
				if err := recv.Wait(ctx); err != nil {
					return err
				}
				info, err = recv.TagRecvInfo()
				recv.Free()
			}
			if want := (ucp.TagRecvInfo{SenderTag: tag, Length: n}); err != nil || info != want {
				return fmt.Errorf("received %+v, %v, want %+v", info, err, want)
			}
			if !bytes.Equal(buf, ucttest.Pattern(n, seed+1-end)) {
				return fmt.Errorf("message %d of %d bytes: another content", k, n)
			}
		}
	}
	return nil
}

// TestMultiCloseRDMA is TestMultiClose over rc and ud.
func TestMultiCloseRDMA(t *testing.T) {
	for _, tr := range []transport{rc, ud} {
		for _, how := range closings {
			t.Run(tr.name+"/"+how.name, func(t *testing.T) { closedTogether(t, tr, how.end) })
		}
	}
}
