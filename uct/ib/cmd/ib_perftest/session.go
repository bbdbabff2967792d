//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// session is one side of one test.
type session struct {
	*options
	out  io.Writer
	open func(name string) (*verbs.Context, string, error)

	// yield lets other processes and the kernel's threads run while a loop waits. No other
	// goroutine has work then.
	yield func()
	// inspect is called after the last message, before anything is closed.
	inspect func(*session)

	endpoint
	peer *peer

	posted, done []uint64 // times of posting and of completion of each message, in ticks
	counted      int      // messages of a timed test within the measured time
	clock        clock
	lastReceived uint64 // time of the last received message in ticks; 0: silence is not limited
	idleSince    uint64 // time at which the present wait began, in ticks
	spin         uint64 // spinTime in ticks
	wc           [pollBatch]verbs.WC
}

// pollBatch is the number of completions polled at once; CTX_POLL_BATCH, perftest_resources.h.
const pollBatch = 16

// run runs the test.
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

// agree exchanges the values that must be the same on both sides.
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

// meet exchanges addresses and connects the queue pairs. As in perftest, the exchange is repeated,
// depending on the test; only the first one counts.
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
	// Once to repeat the addresses, and once more because the other side may send from now on.
	if err := s.await(); err != nil {
		return err
	}
	return s.await()
}

// await waits until the other side calls it too, by repeating the exchange of addresses.
func (s *session) await() error {
	_, err := s.peer.handShake(&s.local)
	return err
}

// exchangeDone synchronizes the two sides and sends the last TCP message; ctx_close_connection.
func (s *session) exchangeDone() error {
	if err := s.await(); err != nil {
		return err
	}
	// C closes the connection without reading the message, so an error is ignored.
	s.peer.conn.Write(doneMessage)
	return nil
}

// sizes returns the message sizes of the test.
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

// runLatency runs write_lat and send_lat, in which both sides measure.
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
		return s.exchangeDone()
	}
	return nil
}

// runFetchLatency runs read_lat and atomic_lat, in which the server is passive.
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
	if err := s.exchangeDone(); err != nil {
		return err
	}
	fmt.Fprint(s.out, line)
	return nil
}

// runBandwidth runs write_bw, read_bw and atomic_bw.
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
	return s.exchangeDone()
}

// runSendBandwidth runs send_bw, in which the receiver measures too.
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
	return s.exchangeDone()
}

// columns prints the column headers.
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

// errOver ends the measuring loop of a timed test. It is not a failure.
var errOver = errors.New("the duration has elapsed")

// loop runs a measuring loop for one message size, and cancels it if the other side closes the TCP
// connection.
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

// clock has the times of a timed test (-D) in ticks. The measurement lasts from sample to stop. The
// test ends at end, which is infinite for a test that is not timed.
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

// count counts n messages of a timed test if the measurement is running. It returns errOver when
// the test has ended.
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

// total returns the number of messages of a test. It is practically infinite for a timed test,
// which ends by its clock.
func (s *session) total() int {
	if s.duration > 0 {
		return math.MaxInt - maxRxDepth
	}
	return s.iters
}
