//go:build linux

package ucptest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
)

// Workers in thread mode multi, used by many goroutines at once. A crowd is a number of goroutines
// that make random operations on a pair of workers. Each has a stream of messages to a partner on
// the other side. A message contains its sender, its number and a checksum, so that loss,
// duplication and changes of order are detected.

// seedVar is the environment variable with a seed, to repeat a run.
const seedVar = "TOGETHER_SEED"

// members is the number of goroutines of a crowd, half of which send.
const members = 64

// steps returns the number of messages that each sender sends, with other operations in between.
func steps() int {
	switch {
	case race.Enabled:
		return 8
	case testing.Short():
		return 10
	}
	return long(40, 20)
}

// crowd is the state that its goroutines share.
type crowd struct {
	*rig
	a, b *side
	ctx  context.Context // context of all waits; ends when a goroutine has failed
	fail context.CancelCauseFunc
	seed uint64

	eps  []*ucp.Endpoint // from a to b, each for several senders
	keys []*ucp.Rkey     // keys of b's memory, one for each endpoint
	mem  *ucp.Memory

	steps       int
	added       atomic.Uint64 // sum of what was added to the first word of the memory
	inCallbacks int           // number of callbacks of receives
	freeing     group         // other goroutines that free requests
}

// space is the size of a sender's own memory at b. Its first word is a counter.
const space = 1 << 17

func newCrowd(t *testing.T, tr transport) *crowd {
	c := &crowd{rig: newRig(t, tr.shared()), seed: rand.Uint64(), steps: steps()}
	if s := os.Getenv(seedVar); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		c.seed = n
	}
	t.Logf("%s=%d", seedVar, c.seed)
	c.ctx, c.fail = context.WithCancelCause(t.Context())
	c.a, c.b = c.oneSidedPair()
	c.mem = c.b.expose(make([]byte, 8+members/2*space), 0)
	for range 4 {
		ep := c.a.connect(c.b)
		c.eps = append(c.eps, ep)
		c.keys = append(c.keys, c.unpack(ep, c.mem).key)
	}
	return c
}

// try fails the test if err is not nil. It reports whether to continue.
func (c *crowd) try(what string, err error) bool {
	if err == nil {
		return true
	}
	if c.ctx.Err() == nil {
		c.Errorf("%s: %v", what, err)
	}
	c.fail(fmt.Errorf("%s: %w", what, err))
	return false
}

// random returns a random generator for a goroutine.
func (c *crowd) random(n int) *rand.Rand { return rand.New(rand.NewPCG(c.seed, uint64(n))) }

// run runs all members, while drivers also progress the workers.
func (c *crowd) run(drivers ...driver) {
	var driving group
	over, stop := context.WithCancel(context.Background())
	sides := []*side{c.a, c.b}
	if c.loopback {
		sides = sides[:1]
	}
	for _, s := range sides {
		for _, drive := range drivers {
			driving.Go(func() { c.try("driving", drive(over, s)) })
		}
	}
	var senders, receivers, lingering group
	for i := range members / 2 {
		senders.Go(func() { (&sender{crowd: c, n: i, rng: c.random(i)}).run() })
		receivers.Go(func() { (&receiver{crowd: c, n: i, rng: c.random(members + i)}).run() })
	}
	// A side whose own work is done continues to progress for the other side.
	linger := func(work *group, s *side) {
		lingering.Go(func() {
			work.Wait()
			if err := s.Run(over); !errors.Is(err, context.Canceled) {
				c.try("lingering", err)
			}
		})
	}
	linger(&senders, c.a)
	linger(&receivers, c.b)
	senders.Wait()
	receivers.Wait()
	stop()
	for _, s := range sides {
		s.Signal()
	}
	driving.Wait()
	lingering.Wait()
	c.freeing.Wait()
	if c.ctx.Err() == nil {
		c.account()
	}
	c.fail(nil)
}

// group is goroutines to wait for.
type group struct{ sync.WaitGroup }

func (g *group) Go(fn func()) {
	g.Add(1)
	go func() {
		defer g.Done()
		fn()
	}()
}

// share waits for a request, sometimes from several goroutines, which must all get the same result.
func (c *crowd) share(rng *rand.Rand, req *ucp.Request) error {
	const others = 3
	if rng.IntN(4) > 0 {
		return req.Wait(c.ctx)
	}
	told := make(chan error)
	for range others {
		go func() { told <- req.Wait(c.ctx) }()
	}
	err := req.Wait(c.ctx)
	for range others {
		if e := <-told; e != err && c.ctx.Err() == nil {
			err = fmt.Errorf("one is told %v, another one %w", e, err)
		}
	}
	return err
}

// free frees a request, sometimes on another goroutine.
func (c *crowd) free(rng *rand.Rand, req *ucp.Request) {
	if rng.IntN(4) > 0 {
		req.Free()
	} else {
		c.freeing.Go(req.Free)
	}
}

// account checks the sums at the end, and that no message is left.
func (c *crowd) account() {
	if n := binary.NativeEndian.Uint64(c.mem.Bytes()); n != c.added.Load() {
		c.Errorf("the word is %d, %d were added", n, c.added.Load())
	}
	if info, ok := c.b.TagPeek(0, 0); ok {
		c.Errorf("a message is left: %+v", info)
	}
}
