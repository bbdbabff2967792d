//go:build linux

package rc

import (
	"fmt"
	"math"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/ib"
)

// transportName is the name of the transport in C UCX.
const transportName = "rc_verbs"

func init() {
	config.Register(config.Section{
		Name: transportName, Prefix: "RC_VERBS_", Title: transportName + " transport",
		New:   func() any { return new(settings) },
		Check: func(cfg *config.Set) error { _, err := loadSettings(cfg); return err },
	})
}

// loadSettings reads the settings of an interface and checks what does not depend on the
// device.
func loadSettings(cfg *config.Set) (*settings, error) {
	s := new(settings)
	if err := cfg.Load(transportName, s); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, s.RC.IB.Check()
}

// settings are read when an interface is opened (uct_rc_verbs_iface_config_table). Some
// settings of C are left out: those for features of one device or release (RX_INLINE,
// TX_INLINE_RESP, ECE, FLUSH_MODE); TX_POLL_ALWAYS, which is always on here; and
// TX_NUM_GET_OPS, which C has given up.
type settings struct {
	RC       rcSettings   `prefix:"RC_"`
	MaxAMHdr config.Bytes `ucx:"MAX_AM_HDR" default:"128" doc:"Room for the header of a zero-copy message, including the byte with its id; 0 means no zero-copy messages."`
	TxMaxWR  config.Count `ucx:"TX_MAX_WR" default:"inf" doc:"Largest number of operations of an endpoint in flight; inf means as many as the send queue holds."`
}

// rcSettings are those of all transports over reliable connections (uct_rc_iface_config_table,
// uct_rc_iface_common_config_table).
type rcSettings struct {
	IB            ib.Settings  `prefix:"IB_"`
	Buffers       bufSettings  `prefix:"IB_"`
	MaxRdAtomic   config.Count `ucx:"MAX_RD_ATOMIC" default:"auto" doc:"Largest number of reads and atomics of an endpoint in flight; auto is the number that the device can answer, and for its own requests at most the number that every peer can answer."`
	Timeout       config.Time  `ucx:"TIMEOUT" default:"1.0s" doc:"Time to wait for an acknowledgment before something is sent again."`
	RetryCount    config.Count `ucx:"RETRY_COUNT" default:"7" doc:"Number of retransmissions before the peer counts as lost. On soft-RoCE 7 means forever; there the keepalive detects a dead peer."`
	RNRTimeout    config.Time  `ucx:"RNR_TIMEOUT" default:"1ms" doc:"Time that a peer waits before it sends again when no receive buffer is posted."`
	RNRRetry      config.Count `ucx:"RNR_RETRY_COUNT" default:"7" doc:"Number of retries when the peer has no buffer; 7 means forever."`
	FCEnable      bool         `ucx:"FC_ENABLE" default:"y" doc:"Hold back messages that the peer has not granted."`
	FCWindow      config.Count `ucx:"FC_WND_SIZE" default:"512" doc:"Number of messages that an endpoint may send without a grant."`
	FCSoft        float64      `ucx:"FC_SOFT_THRESH" default:"0.5" doc:"Part of the window that is left when the next message asks the peer for a grant; above FC_HARD_THRESH, below 1."`
	FCHard        float64      `ucx:"FC_HARD_THRESH" default:"0.25" doc:"Part of the window that is left when the peer is asked for a grant at once; above 0."`
	Fence         fenceMode    `ucx:"FENCE" default:"auto" doc:"What a fence does: none means nothing, weak makes later operations wait for reads and atomics; auto is weak."`
	MaxGetZcopy   config.Bytes `ucx:"MAX_GET_ZCOPY" default:"auto" doc:"Largest number of bytes that one operation reads into the caller's memory; auto is the port's limit."`
	TxNumGetBytes config.Bytes `ucx:"TX_NUM_GET_BYTES" default:"inf" doc:"Largest number of bytes in flight for reads of all endpoints of an interface together; further reads wait. The device itself limits the reads of one endpoint to UCX_RC_VERBS_MAX_RD_ATOMIC."`
	TxModeration  config.Count `ucx:"TX_CQ_MODERATION" default:"64" doc:"Largest number of successive operations without a requested completion."`
	TxCQLen       config.Count `ucx:"TX_CQ_LEN" default:"4096" doc:"Length of the completion queue of sends. It limits the operations in flight of all endpoints together."`
}

// bufSettings are settings of all transports that have other defaults in each transport.
type bufSettings struct {
	Common     commonSettings `prefix:""`
	SegSize    config.Bytes   `ucx:"SEG_SIZE" default:"8256" doc:"Size of buffers that messages are received into and copied to. Must be the same in all processes."`
	RxQueueLen config.Count   `ucx:"RX_QUEUE_LEN" default:"4095" doc:"Length of the receive queue."`
}

// commonSettings are those that all transports have (uct_iface_config_table).
type commonSettings struct {
	MaxNumEPs config.Count `ucx:"MAX_NUM_EPS" default:"256" doc:"Expected maximum number of endpoints (scaling hint, not a limit). If the program or UCX_NUM_EPS expects more, rc is used only to peers that no other transport with a sufficient number reaches. Half of UCX_RC_VERBS_TX_CQ_LEN is reserved in equal parts for that many endpoints."`
}

// fenceMode is what fences do (uct_rc_fence_mode_t).
type fenceMode uint8

const (
	fenceNone fenceMode = iota
	fenceWeak
	fenceAuto
)

var fenceModes = []string{"none", "weak", "auto"}

// ParseConfig implements config.Value.
func (m *fenceMode) ParseConfig(s string) error {
	i, err := config.ParseEnum(s, fenceModes)
	*m = fenceMode(i)
	return err
}

// String implements config.Value.
func (m fenceMode) String() string { return fenceModes[m] }

// ConfigSyntax implements config.Syntaxer.
func (fenceMode) ConfigSyntax() string { return config.EnumSyntax(fenceModes) }

// Limits of settings.
const (
	minSegSize = 128
	maxSegSize = 1 << 20
	maxQueue   = 1 << 15
	minHeader  = 8 // what the device stores for an atomic
	maxHeader  = 1 << 12
)

// check refuses values that make no sense or exceed the field they are stored in.
func (s *settings) check() error {
	r := &s.RC
	for _, c := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"SEG_SIZE", r.Buffers.SegSize.Int(0), minSegSize, maxSegSize},
		{"RX_QUEUE_LEN", r.Buffers.RxQueueLen.Int(0), 1, maxQueue},
		{"TX_CQ_LEN", r.TxCQLen.Int(0), 2, 1 << 22},
		{"TX_CQ_MODERATION", r.TxModeration.Int(0), 0, math.MaxInt},
		{"RETRY_COUNT", r.RetryCount.Int(0), 0, 7},
		{"RNR_RETRY_COUNT", r.RNRRetry.Int(0), 0, 7},
		{"MAX_RD_ATOMIC", r.MaxRdAtomic.Int(1), 1, math.MaxUint8},
		{"FC_WND_SIZE", r.FCWindow.Int(0), 1, math.MaxInt16},
		{"TX_NUM_GET_BYTES", r.TxNumGetBytes.Int(math.MaxInt), 1, math.MaxInt},
		{"MAX_AM_HDR", s.MaxAMHdr.Int(0), 0, maxHeader},
	} {
		if c.value < c.low || c.value > c.high {
			return fmt.Errorf("rc: UCX_RC_VERBS_%s is %d, expected %d to %d: %w", c.name, c.value, c.low, c.high, ucs.ErrInvalidParam)
		}
	}
	if !(r.FCHard > 0 && r.FCHard < 1) || !(r.FCSoft > r.FCHard && r.FCSoft < 1) {
		return fmt.Errorf("rc: UCX_RC_VERBS_FC_SOFT_THRESH is %v and FC_HARD_THRESH %v, expected 0 < hard < soft < 1: %w",
			r.FCSoft, r.FCHard, ucs.ErrInvalidParam)
	}
	if s.TxMaxWR == 0 {
		return fmt.Errorf("rc: UCX_RC_VERBS_TX_MAX_WR is %v, expected 1 at least, or inf: %w", s.TxMaxWR, ucs.ErrInvalidParam)
	}
	return nil
}

// ackTimeout returns the code n of a time to wait for acknowledgments, which is 4.096 µs · 2^n
// (uct_ib_to_qp_timeout).
func ackTimeout(d time.Duration) uint8 {
	n := math.Round(math.Log2(float64(d) / 4096))
	switch {
	case !(n >= 1):
		return 1
	case n > 30:
		return 0 // forever
	}
	return uint8(n)
}

// rnrTimes are the times that the codes 1 to 31 stand for, in units of 10 µs; 0 stands for
// the longest (InfiniBand architecture specification, volume 1, table 45).
var rnrTimes = [...]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
	8192, 12288, 16384, 24576, 32768, 49152,
}

// rnrTimer returns the code of the time nearest to d (uct_ib_to_rnr_fabric_time).
func rnrTimer(d time.Duration) uint8 {
	want := float64(d) / float64(10*time.Microsecond)
	best, off := 0, math.Inf(1)
	for code, t := range rnrTimes {
		if diff := math.Abs(float64(t) - want); diff < off {
			best, off = code, diff
		}
	}
	return uint8(best)
}
