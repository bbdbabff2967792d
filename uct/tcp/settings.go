//go:build linux

package tcp

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
)

// domainSettings and settings are the variables UCX_TCP_*, with C UCX's names and defaults
// (uct_tcp_md_config_table, uct_tcp_iface_config_table). Variables of C UCX without a meaning in
// this library are left out: a connect never blocks (CONN_NB), and buffers are not allocated from
// chunks (TX_*, RX_*, ALLOC).
type domainSettings struct {
	AFPrio       []string `ucx:"AF_PRIO" default:"inet,inet6" doc:"Address families to use, the preferred one first. A device is used with the first family it has an address of."`
	AFDual       bool     `ucx:"AF_DUAL" default:"n" doc:"Publish both addresses of a device with both families of UCX_TCP_AF_PRIO in worker addresses, so that peers of either family can connect. With n the second address is only used to connect to peers that have no other family."`
	BridgeEnable bool     `ucx:"BRIDGE_ENABLE" default:"n" doc:"Use network bridges as devices."`
}

// settings are the variables that are read when an interface is opened.
type settings struct {
	Common        commonSettings   `prefix:""`
	TxSegSize     config.Bytes     `ucx:"TX_SEG_SIZE" default:"8K" doc:"Largest message that is sent by copying it."`
	RxSegSize     config.Bytes     `ucx:"RX_SEG_SIZE" default:"64K" doc:"Largest message that is sent from the user's memory. The largest message that is accepted is this or 64K, whichever is more."`
	MaxIOV        config.Count     `ucx:"MAX_IOV" default:"6" doc:"Largest number of memory pieces in one zero-copy operation; 0 turns zero-copy off."`
	SendvThresh   config.Bytes     `ucx:"SENDV_THRESH" default:"2K" doc:"Short messages with more data than this are written from the user's memory if the send queue is empty."`
	PreferDefault bool             `ucx:"PREFER_DEFAULT" default:"y" doc:"Give the device of the default route a different priority from other devices."`
	PutEnable     bool             `ucx:"PUT_ENABLE" default:"y" doc:"Enable writing to remote memory."`
	MaxPoll       int              `ucx:"MAX_POLL" default:"16" doc:"Number of further reads from a socket that has more data than a buffer holds; -1 means until it is empty."`
	MaxConnRetry  uint             `ucx:"MAX_CONN_RETRIES" default:"25" doc:"Number of attempts to connect if connections are dropped before they are accepted."`
	NoDelay       bool             `ucx:"NODELAY" default:"y" doc:"Send small segments at once (TCP_NODELAY)."`
	SndBuf        config.Bytes     `ucx:"SNDBUF" default:"auto" doc:"Size of the socket's send buffer."`
	RcvBuf        config.Bytes     `ucx:"RCVBUF" default:"auto" doc:"Size of the socket's receive buffer."`
	SynCnt        config.Count     `ucx:"SYN_CNT" default:"auto" doc:"Number of SYN retransmissions, at most 127; auto uses the system's default."`
	UserTimeout   config.Time      `ucx:"USER_TIMEOUT" default:"auto" doc:"Time for which sent data may stay unacknowledged before the kernel closes the connection, even if the peer is only stopped. auto means that a peer is lost when its machine does not answer for as long as keepalive would wait."`
	PortRange     config.Range     `ucx:"PORT_RANGE" default:"0" doc:"Ports to listen on; 0 means any."`
	MaxBW         config.Bandwidth `ucx:"MAX_BW" default:"2200MBs" doc:"Largest bandwidth of the protocol stack to assume; auto means no such limit."`
	KeepIdle      config.Time      `ucx:"KEEPIDLE" default:"10s" doc:"Time without traffic after which keepalive probes are sent; inf turns keepalive off."`
	KeepCnt       config.Count     `ucx:"KEEPCNT" default:"auto" doc:"Number of unanswered keepalive probes after which a peer is lost; inf turns keepalive off."`
	KeepIntvl     config.Time      `ucx:"KEEPINTVL" default:"2s" doc:"Time between keepalive probes; inf turns keepalive off."`
	Allow         []string         `ucx:"ALLOW" default:"all" doc:"Networks (10.1.0.0/16, 2001:db8::/32) and addresses whose connections are accepted; all means any. Others are closed before anything is read from them."`
	BindSrcAddr   config.Ternary   `ucx:"EP_BIND_SRC_ADDR" default:"try" doc:"Connect from the address of the device."`
}

// commonSettings are the settings that all transports have, each transport with its own defaults
// (uct_iface_config_table).
type commonSettings struct {
	Failure   log.Level    `ucx:"FAILURE" default:"DIAG" doc:"Log level of failures of endpoints over tcp without an error handler."`
	MaxNumEPs config.Count `ucx:"MAX_NUM_EPS" default:"256" doc:"Expected maximum number of endpoints (scaling hint, not a limit). If the program or UCX_NUM_EPS expects more, tcp is used only to peers that no other transport with a sufficient number reaches."`
}

// domainSection names the settings of the memory domain.
const domainSection = "tcp memory domain"

func init() {
	config.Register(config.Section{
		Name:   domainSection,
		Prefix: "TCP_",
		Title:  "TCP memory domain",
		New:    func() any { return new(domainSettings) },
	})
	config.Register(config.Section{
		Name:   componentName,
		Prefix: "TCP_",
		Title:  "tcp transport",
		New:    func() any { return new(settings) },
		Check:  checkSettings,
	})
}

// checkSettings returns the error of settings with which domains or interfaces fail to open.
func checkSettings(cfg *config.Set) error {
	if _, err := loadMDOptions(cfg); err != nil {
		return err
	}
	_, err := loadOptions(cfg)
	return err
}

// mdOptions are the settings of a memory domain.
type mdOptions struct {
	families []bool // true: IPv6, false: IPv4; in order of preference
	bridges  bool
	dual     bool // worker addresses list the second family
}

// loadMDOptions reads the settings of a domain.
func loadMDOptions(cfg *config.Set) (mdOptions, error) {
	var s domainSettings
	if err := cfg.Load(domainSection, &s); err != nil {
		return mdOptions{}, err
	}
	o := mdOptions{bridges: s.BridgeEnable, dual: s.AFDual}
	for _, f := range s.AFPrio[:min(len(s.AFPrio), 2)] {
		switch strings.ToLower(f) {
		case "inet":
			o.families = append(o.families, false)
		case "inet6":
			o.families = append(o.families, true)
		default:
			return o, fmt.Errorf("tcp: UCX_TCP_AF_PRIO names %q, expected inet or inet6: %w", f, ucs.ErrInvalidParam)
		}
	}
	return o, nil
}

// options are the settings of an iface, validated, with defaults filled in.
type options struct {
	txSeg, rxSeg int
	maxIOV       int // largest number of entries in a zero-copy operation of the caller
	maxHdr       int // largest header of a zero-copy message, in bytes
	sendv        int // payload length above which a short message is not copied, in bytes
	maxNumEPs    int
	prefer       bool
	putEnable    bool
	maxPoll      int
	maxRetries   int
	noDelay      bool
	sndbuf       int // 0: the system's default; so are rcvbuf and synCnt
	rcvbuf       int
	synCnt       int
	userTimeout  time.Duration
	ports        config.Range
	maxBW        float64
	keep         keepalive
	bindSource   config.Ternary
	allow        []netip.Prefix // nil: all
	failure      log.Level
}

// loadOptions reads the settings of an iface.
func loadOptions(cfg *config.Set) (options, error) {
	var s settings
	if err := cfg.Load(componentName, &s); err != nil {
		return options{}, err
	}
	o := options{
		txSeg:      s.TxSegSize.Int(8 << 10),
		rxSeg:      s.RxSegSize.Int(64 << 10),
		maxIOV:     s.MaxIOV.Int(6),
		sendv:      s.SendvThresh.Int(2 << 10),
		maxNumEPs:  s.Common.MaxNumEPs.Int(256),
		prefer:     s.PreferDefault,
		putEnable:  s.PutEnable,
		maxPoll:    s.MaxPoll,
		maxRetries: int(min(s.MaxConnRetry, math.MaxUint8+1)),
		noDelay:    s.NoDelay,
		sndbuf:     min(s.SndBuf.Int(0), math.MaxInt32),
		rcvbuf:     min(s.RcvBuf.Int(0), math.MaxInt32),
		synCnt:     s.SynCnt.Int(0),
		ports:      s.PortRange,
		maxBW:      float64(s.MaxBW),
		bindSource: s.BindSrcAddr,
		failure:    s.Common.Failure,
	}
	if s.MaxBW.IsAuto() {
		o.maxBW = math.Inf(1)
	}
	o.maxIOV = min(o.maxIOV, maxIOV)
	if o.maxRetries > math.MaxUint8 {
		return o, fmt.Errorf("tcp: UCX_TCP_MAX_CONN_RETRIES is %v, the limit is %d: %w", config.Count(s.MaxConnRetry), math.MaxUint8, ucs.ErrInvalidParam)
	}
	if o.rxSeg > maxSeg {
		return o, fmt.Errorf("tcp: UCX_TCP_RX_SEG_SIZE is %v, the limit is %v: %w", s.RxSegSize, config.Bytes(maxSeg), ucs.ErrInvalidParam)
	}
	if o.txSeg < 8 || o.txSeg > o.rxSeg {
		return o, fmt.Errorf("tcp: UCX_TCP_TX_SEG_SIZE is %v, expected 8 to UCX_TCP_RX_SEG_SIZE, %v: %w", s.TxSegSize, config.Bytes(o.rxSeg), ucs.ErrInvalidParam)
	}
	if o.maxHdr = o.txSeg + hdrLen - zcopyContext - iovecSize*(o.maxIOV+serviceIOV); o.maxHdr < 0 {
		if o.maxIOV > 0 {
			return o, fmt.Errorf("tcp: UCX_TCP_TX_SEG_SIZE of %v is too small for UCX_TCP_MAX_IOV of %v: %w", config.Bytes(o.txSeg), s.MaxIOV, ucs.ErrInvalidParam)
		}
		o.maxHdr = 0
	}
	if o.synCnt > maxSynCnt {
		return o, fmt.Errorf("tcp: UCX_TCP_SYN_CNT is %v, the limit is %d: %w", s.SynCnt, maxSynCnt, ucs.ErrInvalidParam)
	}
	if o.ports.Last > math.MaxUint16 {
		return o, fmt.Errorf("tcp: UCX_TCP_PORT_RANGE ends at %d, the limit is %d: %w", o.ports.Last, math.MaxUint16, ucs.ErrInvalidParam)
	}
	if !s.UserTimeout.IsAuto() && s.UserTimeout != config.TimeInf {
		o.userTimeout = s.UserTimeout.Duration(0)
	}
	o.keep = s.keepalive()
	var err error
	o.allow, err = parseAllow(s.Allow)
	return o, err
}

// Limits of settings.
const (
	// maxSeg limits the size of receive buffers, each of which has room for a largest frame.
	maxSeg = 1 << 30

	// maxSynCnt is the kernel's limit (MAX_TCP_SYNCNT in include/net/tcp.h).
	maxSynCnt = 127
)

// Sizes from which the largest header of a zero-copy message is computed: the room that C UCX has
// left in its transmit buffer after a context and the list of entries (uct_tcp_iface_t class init).
// It is part of the published attributes.
const (
	zcopyContext = 32 // uct_tcp_ep_zcopy_tx_t
	iovecSize    = 16 // struct iovec
	serviceIOV   = 2  // UCT_TCP_EP_ZCOPY_SERVICE_IOV_COUNT

	// maxIOV is the number of entries that one system call takes, less those for headers.
	maxIOV = 1024 - serviceIOV
)

// apply sets the options of a socket.
func (o *options) apply(fd int) error {
	set := func(level, name, value int) error {
		return unix.SetsockoptInt(fd, level, name, value)
	}
	err := set(unix.IPPROTO_TCP, unix.TCP_NODELAY, boolInt(o.noDelay))
	if err == nil && o.sndbuf > 0 {
		err = set(unix.SOL_SOCKET, unix.SO_SNDBUF, o.sndbuf)
	}
	if err == nil && o.rcvbuf > 0 {
		err = set(unix.SOL_SOCKET, unix.SO_RCVBUF, o.rcvbuf)
	}
	if err == nil && o.synCnt > 0 {
		err = set(unix.IPPROTO_TCP, unix.TCP_SYNCNT, o.synCnt)
	}
	if err == nil && o.userTimeout > 0 {
		err = set(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(min(max(o.userTimeout/time.Millisecond, 1), math.MaxInt32)))
	}
	if err == nil {
		err = o.keep.apply(fd)
	}
	return err
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
