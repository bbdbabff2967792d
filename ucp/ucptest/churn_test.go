//go:build linux

package ucptest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
)

// TestChurn: of many endpoints to one peer, random ones are closed and others are created, and the
// keepalive checks them all. No open endpoint may fail. Transports pair connections in the order of
// their creation, so that soon a connection belongs to two endpoints, one on each side, that are
// not connected with each other.
func TestChurn(t *testing.T) {
	needtest.Goroutines(t)
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for _, tr := range []transport{byName(t, "tcp"), rc, rcTCPOnly, ud} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", tr.name, seed), func(t *testing.T) {
				c := &churn{rig: newRig(t, tr.with(setting{"UD_TIMEOUT", "30s"}, setting{"KEEPALIVE_INTERVAL", "20ms"}))}
				c.rng = rand.New(rand.NewPCG(seed, 0))
				c.a, c.b = c.pair()
				for range churnTurns {
					c.turn()
				}
			})
		}
	}
}

const (
	churnTurns  = 30
	churnAtOnce = 20 // endpoints open at once
)

// churn is two workers with endpoints from one to the other.
type churn struct {
	*rig
	a, b *side
	rng  *rand.Rand
	live []*ucp.Endpoint
	made int
}

// turn closes some endpoints, creates others, and sends a message over each open one.
func (c *churn) turn() {
	for n := len(c.live) - 1; n >= 0; n-- {
		if c.rng.IntN(3) > 0 {
			continue
		}
		if err := c.finish(c.live[n].CloseAsync(c.closings()[c.rng.IntN(2)])); err != nil {
			c.failed(c.live[n], err)
		}
		c.live = slices.Delete(c.live, n, n+1)
	}
	for len(c.live) < churnAtOnce && c.rng.IntN(8) > 0 {
		c.made++
		c.live = append(c.live, c.a.connectWith(c.b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer}))
	}
	c.messages()
	c.until("the ends of closed endpoints to go", func() bool { return c.b.Stats().Endpoints <= len(c.live) })
	c.messages()
}

// messages sends a message over each endpoint, which the peer has to acknowledge.
func (c *churn) messages() {
	c.rng.Shuffle(len(c.live), func(i, k int) { c.live[i], c.live[k] = c.live[k], c.live[i] })
	reqs := make([][2]*ucp.Request, len(c.live))
	for k, ep := range c.live {
		send, err := ep.TagSendSync(ucp.Tag(k), make([]byte, 8), nil)
		if err != nil {
			c.failed(ep, err)
		}
		reqs[k] = [2]*ucp.Request{c.started(c.b.TagRecv(ucp.Tag(k), ucp.FullMask, make([]byte, 8), nil)), send}
	}
	for k, ep := range c.live {
		if err := c.finish(reqs[k][1], nil); err != nil {
			c.failed(ep, err)
		}
		c.must(reqs[k][0], nil)
	}
}

func (c *churn) failed(ep *ucp.Endpoint, err error) {
	c.Helper()
	c.Fatalf("endpoint %s, of %d that were made and %d open ones: %v", ep.Attr().Name, c.made, len(c.live), err)
}
