//go:build linux

package tcp

import (
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs/config"
)

// keepalive has the settings of the kernel's probes on connections without traffic. Both ends send
// probes, so each end detects by itself that the other's machine is gone.
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
