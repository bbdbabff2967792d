//go:build linux

package sockcm

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// settings are the variables UCX_TCP_CM_*, with C UCX's names and defaults
// (uct_tcp_sockcm_config_table, uct_cm_config_table).
type settings struct {
	Common      connkit.Settings `prefix:"CM_"`
	PrivDataLen config.Bytes     `ucx:"PRIV_DATA_LEN" default:"2K" doc:"Largest private data of a connection, without its header; must be equal on all peers."`
	SndBuf      config.Bytes     `ucx:"SNDBUF" default:"auto" doc:"Size of the socket's send buffer."`
	RcvBuf      config.Bytes     `ucx:"RCVBUF" default:"auto" doc:"Size of the socket's receive buffer."`
	SynCnt      config.Count     `ucx:"SYN_CNT" default:"auto" doc:"Number of SYN retransmissions, at most 127; auto uses the system's default."`
	UserTimeout config.Time      `ucx:"USER_TIMEOUT" default:"auto" doc:"Time for which sent data may stay unacknowledged before the kernel closes the connection; auto uses the system's default."`
}

const section = "tcp_cm"

func init() {
	config.Register(config.Section{
		Name:   section,
		Prefix: "TCP_CM_",
		Title:  "TCP-SOCKCM connection manager",
		New:    func() any { return new(settings) },
		Check:  func(s *config.Set) error { _, err := loadOptions(s); return err },
	})
}

const (
	// maxPrivate bounds the private data in bytes, and with it the memory that untrusted peers
	// can use, because each request may hold that much.
	maxPrivate = 64 << 10

	// maxSynCnt is the kernel's limit (MAX_TCP_SYNCNT in include/net/tcp.h).
	maxSynCnt = 127
)

// options are the checked settings, with defaults filled in.
type options struct {
	common      connkit.Settings
	private     int // largest private data
	sndbuf      int // 0: the system's default, as for the following fields
	rcvbuf      int
	synCnt      int
	userTimeout time.Duration
}

func loadOptions(cfg *config.Set) (options, error) {
	var s settings
	if err := cfg.Load(section, &s); err != nil {
		return options{}, err
	}
	o := options{
		// C UCX counts the header twice (uct_tcp_sockcm_t class init), so the limit for the
		// layer above is larger than the setting.
		private: s.PrivDataLen.Int(2 << 10),
		common:  s.Common,
		sndbuf:  min(s.SndBuf.Int(0), math.MaxInt32),
		rcvbuf:  min(s.RcvBuf.Int(0), math.MaxInt32),
		synCnt:  s.SynCnt.Int(0),
	}
	if o.private > maxPrivate {
		return o, fmt.Errorf("tcp: UCX_TCP_CM_PRIV_DATA_LEN is %v, the limit is %v: %w", s.PrivDataLen, config.Bytes(maxPrivate), ucs.ErrInvalidParam)
	}
	o.private += headerLen
	if o.synCnt > maxSynCnt {
		return o, fmt.Errorf("tcp: UCX_TCP_CM_SYN_CNT is %v, the limit is %d: %w", s.SynCnt, maxSynCnt, ucs.ErrInvalidParam)
	}
	if !s.UserTimeout.IsAuto() && s.UserTimeout != config.TimeInf {
		o.userTimeout = s.UserTimeout.Duration(0)
	}
	return o, nil
}

// apply sets the options of a socket. Accepted connections inherit them from the listening
// socket.
func (o *options) apply(fd int) error {
	// Each message is written with one call; Nagle's algorithm must not delay its last segment.
	err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	set := func(level, name, value int) {
		if err == nil && value > 0 {
			err = unix.SetsockoptInt(fd, level, name, value)
		}
	}
	set(unix.SOL_SOCKET, unix.SO_SNDBUF, o.sndbuf)
	set(unix.SOL_SOCKET, unix.SO_RCVBUF, o.rcvbuf)
	set(unix.IPPROTO_TCP, unix.TCP_SYNCNT, o.synCnt)
	if o.userTimeout > 0 {
		set(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(min(max(o.userTimeout/time.Millisecond, 1), math.MaxInt32)))
	}
	return err
}
