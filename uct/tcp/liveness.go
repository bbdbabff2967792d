//go:build linux

package tcp

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// liveness detects peers whose machine is gone while output is in flight, when the kernel's
// keepalive sends no probes. (On a connection without output in flight the kernel detects it,
// see keepalive.)
//
// TCP_USER_TIMEOUT would detect them, but it also counts the time in which a peer's receive window
// is closed, although that peer answers every probe. On Linux 6.18 a connection toward a stopped
// process, with a timeout of 3 s and a full window, ends with ETIMEDOUT after 3 to 4 s; without the
// option it stays. This transport regards a stopped peer as alive, however long it is stopped.
// Clearing the option in time does not help either: the kernel's clock runs on while the
// application does not call Progress. Instead liveness reads TCP_INFO at intervals, and only of
// connections that have sent something since they were last found idle. A peer is gone when no
// acknowledgement of any kind has arrived for as long as keepalive would wait, and the kernel's
// retransmissions or probes were not answered.
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

// sent starts to check c, which has output in flight.
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

// look checks every listed connection. It begins with the last one, because a connection that
// leaves the list is replaced by the last one, which was then checked already.
func (l *liveness) look() {
	l.armed = false
	now := l.svc.w.Now()
	next := time.Duration(0)
	for k := len(l.list) - 1; k >= 0; k-- {
		if k >= len(l.list) {
			continue // the error callback of a lost peer has closed other connections
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
	c.lost("write", fmt.Errorf("%w: no TCP acknowledgment for %v: %w",
		errNoAnswer, silent.Round(time.Millisecond), unix.ETIMEDOUT))
}

// verdict is the result of a liveness check of a connection.
type verdict uint8

const (
	verdictIdle verdict = iota // nothing is in flight
	verdictWait                // alive, or not known to be gone
	verdictGone
)

// judge returns whether the peer is gone, given the TCP_INFO read at time now. limit is the time
// for which a peer may be silent.
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

// aliveList holds the connections that have sent something since they were last found idle, see
// [liveness].
type aliveList struct {
	list []*conn
}

// aliveMark is a connection's entry in the list.
type aliveMark struct {
	place int           // position in the list, from 1 on; 0: not listed
	since time.Duration // start of the peer's silence, by the worker's clock; negative: not checked yet
}

// forget removes c from the list, because it is idle or closed. A closed connection must not stay
// referenced, and thus in memory, until the next check.
func (l *aliveList) forget(c *conn) {
	place := c.alive.place
	if place == 0 {
		return
	}
	last := len(l.list) - 1
	l.list[place-1] = l.list[last]
	l.list[place-1].alive.place = place
	l.list[last] = nil
	l.list = l.list[:last]
	c.alive = aliveMark{}
}

// keepalive has the settings of the kernel's probes on connections without traffic. Both sides send
// probes, so each side detects by itself that the other side's machine is gone.
type keepalive struct {
	enabled bool
	idle    time.Duration // time without traffic before the first probe
	intvl   time.Duration // time between probes
	cnt     int           // number of unanswered probes; 0: the system's default
}

// Defaults of C UCX (UCT_TCP_EP_DEFAULT_KEEPALIVE_IDLE and …_INTVL).
const (
	defaultKeepIdle  = 10 * time.Second
	defaultKeepIntvl = 2 * time.Second
)

// keepalive returns the keepalive settings.
func (s *settings) keepalive() keepalive {
	return keepalive{
		enabled: s.KeepIdle != config.TimeInf && s.KeepIntvl != config.TimeInf && s.KeepCnt != config.CountInf,
		idle:    wholeSeconds(s.KeepIdle.Duration(defaultKeepIdle)),
		intvl:   wholeSeconds(s.KeepIntvl.Duration(defaultKeepIntvl)),
		cnt:     min(s.KeepCnt.Int(0), math.MaxInt8),
	}
}

// wholeSeconds truncates a time to whole seconds, within the range that the kernel accepts.
func wholeSeconds(d time.Duration) time.Duration {
	return min(max(d.Truncate(time.Second), time.Second), math.MaxInt16*time.Second)
}

// apply turns keepalive on for a socket, if it is enabled.
func (k *keepalive) apply(fd int) error {
	if !k.enabled {
		return nil
	}
	err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(k.intvl/time.Second))
	if err == nil && k.cnt > 0 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, k.cnt)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(k.idle/time.Second))
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	}
	return err
}

// total returns the time after which a silent peer's machine counts as gone.
func (k *keepalive) total() time.Duration {
	cnt := k.cnt
	if cnt == 0 {
		cnt = systemKeepCnt()
	}
	return k.idle + time.Duration(cnt)*k.intvl
}

// systemKeepCnt returns the system's default number of unanswered probes.
func systemKeepCnt() int {
	b, err := sys.ReadFile("/proc/sys/net/ipv4/tcp_keepalive_probes")
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n > 0 {
			return n
		}
	}
	return 9 // TCP_KEEPALIVE_PROBES in include/net/tcp.h
}

// Check implements uct.Endpoint. On an established connection Check sends a keepalive frame, unless
// other output waits to be written. The peer's kernel acknowledges the frame; the endpoint fails if
// no acknowledgement arrives. Before the connection is established, Check returns ucs.InProgress,
// and comp is completed when the connection is established.
func (ep *endpoint) Check(comp *uct.Completion) error {
	if ep.err != nil {
		return ep.err
	}
	c := ep.conn
	if c == nil || c.state != stateConnected {
		if comp == nil {
			return nil
		}
		o := ep.iface.svc.ops.get()
		o.comp = comp
		ep.checks.push(o)
		return ucs.InProgress
	}
	if c.written != c.accepted || c.owed != 0 {
		return nil // the waiting output checks the peer as well
	}
	b := c.room(hdrLen)
	c.queued(len(appendFrameHeader(b, idKeepalive, 0)) - len(b))
	c.probe = true
	c.guestEntry.counted += hdrLen
	c.write()
	c.iface.svc.markDirty(c)
	return ep.err
}
