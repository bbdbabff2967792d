//go:build linux

package tcp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/event"
)

// liveness finds peers whose machine is gone while output is under way, when the
// kernel's keepalive is silent. (A connection without output is the kernel's
// business, see keepalive.)
//
// TCP_USER_TIMEOUT would be the obvious means, and is not used: it also counts
// the time a peer's receive window is closed, although that peer answers every
// probe. On Linux 6.18 a connection toward a stopped process, with a timeout of
// 3 s and a full window, ends with ETIMEDOUT after 3 to 4 s; without the option
// it stays. A stopped peer is alive here, however long. And the kernel would go
// by its own clock while nobody calls Progress, so clearing the option in time is
// no way out either. Instead TCP_INFO is asked, now and then, for those
// connections only that have sent something since they were last found quiet: a
// peer is gone when no acknowledgement of any kind has come for as long as
// keepalive would wait, and the kernel has repeated itself to no avail.
//
// While the window is closed the kernel probes at intervals that grow up to two
// minutes, so a machine lost in that state is found after three of them.
type liveness struct {
	aliveList
	svc   *service
	timer *event.Timer
	armed bool // timer runs
}

const (
	// livenessLooks is the number of looks in the time a peer may be silent.
	livenessLooks = 8

	// unanswered is the number of repetitions or probes without answer that make
	// silence meaningful.
	unanswered = 3
)

// sent notes that c has output under way.
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

// schedule arranges the next look, unless one is due earlier.
func (l *liveness) schedule(d time.Duration) {
	if l.armed {
		return
	}
	l.armed = true
	if l.timer == nil {
		// Without a timer nobody is found dead, which is no reason to fail.
		l.timer, _ = l.svc.w.Timers().After(d, l.look)
		return
	}
	l.timer.Reset(d)
}

// look looks at every listed connection, the last one first: the place of one that leaves
// the list is taken by one that was looked at.
func (l *liveness) look() {
	l.armed = false
	now := l.svc.w.Now()
	next := time.Duration(0)
	for k := len(l.list) - 1; k >= 0; k-- {
		if k >= len(l.list) {
			continue // who was told that a peer is gone has closed others
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

// checkAlive looks at one connection and reports whether it is to be looked at
// again. It drops a connection whose peer is gone.
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

// gone drops a connection after so much silence.
func (c *conn) gone(silent time.Duration) {
	c.lost("write", fmt.Errorf("%w, not even its kernel, for %v: %w",
		errNoAnswer, silent.Round(time.Millisecond), unix.ETIMEDOUT))
}

// verdict is the outcome of a look.
type verdict uint8

const (
	verdictIdle verdict = iota // nothing is under way
	verdictWait                // alive, or not known to be gone
	verdictGone
)

// judge decides by what the kernel knows at a time.
func (m *aliveMark) judge(now time.Duration, info *unix.TCPInfo, limit time.Duration) verdict {
	if info.Unacked == 0 && info.Notsent_bytes == 0 {
		return verdictIdle
	}
	if m.since < 0 {
		// The last acknowledgement may be old for want of anything to
		// acknowledge. Silence counts from now on.
		m.since = now
	}
	m.since = max(m.since, now-time.Duration(info.Last_ack_recv)*time.Millisecond)
	if now-m.since >= limit && max(info.Retransmits, info.Probes) >= unanswered {
		return verdictGone
	}
	return verdictWait
}
