//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/ucx-go/ucx/cmd/internal/ticks"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// session is one side of one test.
type session struct {
	*options
	out  io.Writer
	open func(name string) (*verbs.Context, string, error)

	// yield lets others run while there is nothing to do: processes, and the kernel's
	// threads. No other goroutine has anything to do then.
	yield func()
	// inspect is called after the last message, while everything is there still.
	inspect func(*session)

	endpoint
	peer *peer

	posted, done []uint64 // ticks, by message
	counted      int      // messages while it was measured, of a timed test
	clock        clock
	heard        uint64 // ticks of the last message, where silence is an error
	idleSince    uint64 // ticks, of what is waited for
	spin         uint64 // spinTime in ticks
	wc           [pollBatch]verbs.WC
}

// pollBatch is how many completions are taken at once; CTX_POLL_BATCH,
// perftest_resources.h.
const pollBatch = 16

// run goes through the test.
func (s *session) run(ctx context.Context) (err error) {
	if s.dev, s.name, err = s.open(s.device); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.destroy()) }()
	if err := s.examine(); err != nil {
		return err
	}
	if s.host == "" {
		fmt.Fprint(s.out, waiting)
	}
	if s.peer, err = connect(ctx, s.host, s.tcpPort); err != nil {
		return err
	}
	defer s.peer.conn.Close()
	defer context.AfterFunc(ctx, func() { s.peer.conn.Close() })()
	s.peer.gid = !s.port.GID.GID.IsZero()
	if err := s.agree(); err != nil {
		return err
	}
	if err := s.create(); err != nil {
		return err
	}
	s.header(s.out)
	if err := s.meet(); err != nil {
		return err
	}
	n := s.iters
	if s.noPeak {
		n = 1
	}
	s.posted, s.done = make([]uint64, n), make([]uint64, n)
	switch {
	case !s.bw && s.fetches():
		err = s.runFetchLatency(ctx)
	case !s.bw:
		err = s.runLatency(ctx)
	case s.verb == verbSend:
		err = s.runSendBandwidth(ctx)
	default:
		err = s.runBandwidth(ctx)
	}
	if err != nil {
		return err
	}
	s.peer.leave()
	if s.inspect != nil {
		s.inspect(s)
	}
	return nil
}

// agree exchanges what both sides have to have alike.
func (s *session) agree() (err error) {
	if s.cycle, s.line, err = s.peer.hello(os.Getpagesize(), cacheLine); err != nil {
		return err
	}
	in, err := s.peer.exchange("MTUs", appendMTU(nil, s.mtu))
	if err != nil {
		return err
	}
	theirs, err := parseMTU(in)
	if err != nil {
		return err
	}
	s.mtu = min(s.mtu, theirs)
	return s.fit()
}

// meet exchanges addresses and connects the queue pairs. How often the sides
// exchange the same again depends on the test; the first time counts.
func (s *session) meet() (err error) {
	if s.remote, err = s.peer.handShake(&s.local); err != nil {
		return err
	}
	if !s.bw && s.verb != verbSend {
		if err := s.await(); err != nil {
			return err
		}
	}
	if err := s.join(); err != nil {
		return err
	}
	s.address(s.out, "local", &s.local)
	s.address(s.out, "remote", &s.remote)
	// Once for the addresses again, once more since the other side may send from
	// now on.
	if err := s.await(); err != nil {
		return err
	}
	return s.await()
}

// await lets the sides wait for each other.
func (s *session) await() error {
	_, err := s.peer.handShake(&s.local)
	return err
}

// farewell is the end of the conversation; ctx_close_connection.
func (s *session) farewell() error {
	if err := s.await(); err != nil {
		return err
	}
	// C closes without reading it: that may be so already.
	s.peer.conn.Write(farewell)
	return nil
}

// sizes are the sizes of the test.
func (s *session) sizes() []int {
	if !s.all {
		return []int{s.size}
	}
	var list []int
	for n := 2; n <= s.size; n *= 2 {
		list = append(list, n)
	}
	return list
}

// runLatency is write_lat and send_lat, where both sides measure.
func (s *session) runLatency(ctx context.Context) error {
	s.columns()
	for _, size := range s.sizes() {
		loop := s.latWrite
		if s.verb == verbSend {
			loop = s.latSend
			if _, err := s.postReceives(size); err != nil {
				return err
			}
			if err := s.await(); err != nil {
				return err
			}
		}
		if err := s.loop(ctx, loop, size); err != nil {
			return err
		}
		s.latency(s.out, size)
	}
	fmt.Fprint(s.out, line)
	if s.verb == verbSend {
		return s.farewell()
	}
	return nil
}

// runFetchLatency is read_lat and atomic_lat, where the server has nothing to do.
func (s *session) runFetchLatency(ctx context.Context) error {
	if s.peer.client {
		s.columns()
		for _, size := range s.sizes() {
			if err := s.loop(ctx, s.latFetch, size); err != nil {
				return err
			}
			s.latency(s.out, size)
		}
	}
	if err := s.farewell(); err != nil {
		return err
	}
	fmt.Fprint(s.out, line)
	return nil
}

// runBandwidth is write_bw, read_bw and atomic_bw.
func (s *session) runBandwidth(ctx context.Context) error {
	s.columns()
	var own report
	if s.sends() {
		for _, size := range s.sizes() {
			if s.both {
				if err := s.await(); err != nil {
					return err
				}
			}
			if err := s.loop(ctx, s.bwSend, size); err != nil {
				return err
			}
			own = s.bandwidth(size)
			if !s.both {
				row(s.out, own, nil)
				continue
			}
			if s.all {
				if err := s.await(); err != nil {
					return err
				}
			}
			theirs, err := s.peer.reports(&own)
			if err != nil {
				return err
			}
			row(s.out, own, &theirs)
		}
	}
	if !s.both {
		if err := s.await(); err != nil {
			return err
		}
		theirs, err := s.peer.reports(&own)
		if err != nil {
			return err
		}
		if !s.peer.client {
			row(s.out, theirs, nil)
		}
	}
	fmt.Fprint(s.out, line)
	return s.farewell()
}

// runSendBandwidth is send_bw, where the receiver measures too.
func (s *session) runSendBandwidth(ctx context.Context) error {
	s.columns()
	loop := s.bwReceive
	switch {
	case s.both:
		loop = s.bwBoth
	case s.peer.client:
		loop = s.bwSend
	}
	for _, size := range s.sizes() {
		if !s.peer.client || s.both {
			if _, err := s.postReceives(size); err != nil {
				return err
			}
		}
		if err := s.await(); err != nil {
			return err
		}
		if err := s.loop(ctx, loop, size); err != nil {
			return err
		}
		own := s.bandwidth(size)
		if s.both && s.duration == 0 {
			theirs, err := s.peer.reports(&own)
			if err != nil {
				return err
			}
			row(s.out, own, &theirs)
		} else {
			row(s.out, own, nil)
		}
		if s.all {
			if err := s.await(); err != nil {
				return err
			}
		}
	}
	fmt.Fprint(s.out, line)
	return s.farewell()
}

// columns prints what stands over them.
func (s *session) columns() {
	header := headerLat
	switch {
	case s.bw:
		header = headerBW
	case s.duration > 0:
		header = headerTimed
	}
	fmt.Fprint(s.out, line, header)
}

// errOver ends the loop of a timed test.
var errOver = errors.New("time is over")

// loop runs a loop, and ends it if the other side goes away.
func (s *session) loop(ctx context.Context, loop func(ctx context.Context, size int) error, size int) error {
	ctx, stop := s.peer.watch(ctx)
	defer stop()
	s.counted, s.clock, s.spin = 0, clock{end: math.MaxUint64}, ticks.FromSeconds(spinTime)
	settle()
	if err := loop(ctx, size); err != nil && err != errOver {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// clock is when a timed test begins to be measured, when it ceases to be, and when
// it is over, in ticks. What is not timed is never over.
type clock struct{ sample, stop, end uint64 }

// start starts the clock of a timed test.
func (s *session) start() {
	if s.duration == 0 {
		return
	}
	margin := ticks.FromSeconds(s.margin.Seconds())
	now := ticks.Now()
	s.clock = clock{sample: now + margin, end: now + ticks.FromSeconds(s.duration.Seconds())}
	s.clock.stop = s.clock.end - margin
}

func (c *clock) measured() uint64 { return c.stop - c.sample }

// count counts messages of a timed test if it is the time to. It may end the test.
func (s *session) count(n int) error {
	now := ticks.Now()
	if now >= s.clock.sample && now < s.clock.stop {
		s.counted += n
	}
	if now >= s.clock.end {
		return errOver
	}
	return nil
}

// total is how many messages a test has; a timed one ends otherwise.
func (s *session) total() int {
	if s.duration > 0 {
		return math.MaxInt - maxRxDepth
	}
	return s.iters
}
