//go:build linux

package tcp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/event"
)

// liveness detects peers whose machine is gone while output is in flight, when the kernel's
// keepalive sends no probes. (On a connection without output in flight the kernel detects it,
// see keepalive.)
//
// TCP_USER_TIMEOUT is the obvious means, but it also counts the time in which a peer's receive
// window is closed, although that peer answers every probe. On Linux 6.18 a connection toward a
// stopped process, with a timeout of 3 s and a full window, ends with ETIMEDOUT after 3 to 4 s;
// without the option it stays. This transport regards a stopped peer as alive, however long it
// is stopped. Clearing the option in time does not help either: the kernel's clock runs on while
// the application does not call Progress. Instead liveness reads TCP_INFO at intervals, and only
// of connections that have sent something since they were last found idle. A peer is gone when
// no acknowledgement of any kind has arrived for as long as keepalive would wait, and the
// kernel's retransmissions or probes were not answered.
//
// While the window is closed the kernel probes at intervals that grow up to two minutes, so a
// machine lost in that state is detected after three of these intervals.
type liveness struct {
	aliveList
	svc   *service
	timer *event.Timer
	armed bool // timer runs
}

const (
	// livenessLooks is the number of checks in the time that a peer may be silent.
	livenessLooks = 8

	// unanswered is the number of retransmissions or probes without answer after which
	// silence means that the peer is gone.
	unanswered = 3
)

// sent notes that c has output in flight.
func (l *liveness) sent(c *conn) {
	if c.alive.place == 0 && c.iface.silence > 0 {
		l.add(c)
	}
}

func (l *liveness) add(c *conn) {
	l.list = append(l.list, c)
	c.alive = aliveMark{place: len(l.list), since: -1}
	l.schedule(c.iface.silence / livenessLooks)
}

// schedule sets the timer for the next check, unless it runs already.
func (l *liveness) schedule(d time.Duration) {
	if l.armed {
		return
	}
	l.armed = true
	if l.timer == nil {
		// Without a timer no lost peer is detected, which is not a reason to fail.
		l.timer, _ = l.svc.w.Timers().After(d, l.look)
		return
	}
	l.timer.Reset(d)
}

// look checks every listed connection, the last one first: a connection that leaves the list is
// replaced by the last one, which was checked already.
func (l *liveness) look() {
	l.armed = false
	now := l.svc.w.Now()
	next := time.Duration(0)
	for k := len(l.list) - 1; k >= 0; k-- {
		if k >= len(l.list) {
			continue // a callback that was told of a lost peer has closed others
		}
		c := l.list[k]
		if !c.checkAlive(now) {
			l.forget(c)
			continue
		}
		if d := c.iface.silence / livenessLooks; next == 0 || d < next {
			next = d
		}
	}
	if len(l.list) > 0 {
		l.schedule(next)
	}
}

func (l *liveness) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	for len(l.list) > 0 {
		l.forget(l.list[0])
	}
}

// checkAlive checks one connection and reports whether to check it again. It drops a connection
// whose peer is gone.
func (c *conn) checkAlive(now time.Duration) bool {
	info, err := unix.GetsockoptTCPInfo(int(c.fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false
	}
	switch c.alive.judge(now, info, c.iface.silence) {
	case verdictWait:
		return true
	case verdictGone:
		c.gone(now - c.alive.since)
	}
	return false
}

// gone drops a connection whose peer was silent for the given time.
func (c *conn) gone(silent time.Duration) {
	c.lost("write", fmt.Errorf("%w, not even its kernel, for %v: %w",
		errNoAnswer, silent.Round(time.Millisecond), unix.ETIMEDOUT))
}

// verdict is the result of a check.
type verdict uint8

const (
	verdictIdle verdict = iota // nothing is in flight
	verdictWait                // alive, or not known to be gone
	verdictGone
)

// judge decides from the TCP_INFO read at time now. A peer may be silent for up to limit.
func (m *aliveMark) judge(now time.Duration, info *unix.TCPInfo, limit time.Duration) verdict {
	if info.Unacked == 0 && info.Notsent_bytes == 0 {
		return verdictIdle
	}
	if m.since < 0 {
		// The last acknowledgement may be old because there was nothing to
		// acknowledge. Silence counts from now on.
		m.since = now
	}
	m.since = max(m.since, now-time.Duration(info.Last_ack_recv)*time.Millisecond)
	if now-m.since >= limit && max(info.Retransmits, info.Probes) >= unanswered {
		return verdictGone
	}
	return verdictWait
}
