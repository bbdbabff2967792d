//go:build linux

package ud

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
)

// transportName is the name of the transport, as C UCX has it.
const transportName = "ud_verbs"

func init() {
	config.Register(config.Section{
		Name: transportName, Prefix: "UD_VERBS_", Title: transportName + " transport",
		New:   func() any { return new(settings) },
		Check: func(cfg *config.Set) error { _, err := loadSettings(cfg); return err },
	})
}

// loadSettings reads the settings of an interface and makes the checks that do not depend on its
// device.
func loadSettings(cfg *config.Set) (*settings, error) {
	s := new(settings)
	if err := cfg.Load(transportName, s); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, s.UD.IB.Check()
}

// settings are read when an interface is opened (uct_ud_verbs_iface_config_table).
type settings struct {
	UD udSettings `prefix:"UD_"`
}

// udSettings are the settings of all datagram transports (uct_ud_iface_config_table). The settings
// of C's asynchronous progress, ASYNC_TIMER_TICK and RX_ASYNC_MAX_POLL, are left out, and so is
// RX_QUEUE_LEN_INIT, because the receive queue grows by itself.
type udSettings struct {
	IB        ib.Settings  `prefix:"IB_"`
	Buffers   bufSettings  `prefix:"IB_"`
	Linger    config.Time  `ucx:"LINGER_TIMEOUT" default:"5.0m" doc:"Time for which a closed connection still answers its peer, from the last packet of the peer."`
	Timeout   config.Time  `ucx:"TIMEOUT" default:"30s" doc:"Time without an acknowledgment after which a peer counts as lost."`
	Tick      config.Time  `ucx:"TIMER_TICK" default:"10ms" doc:"Time without an acknowledgment after which the peer is asked for one; after three times as long, packets are sent again."`
	Backoff   float64      `ucx:"TIMER_BACKOFF" default:"2.0" doc:"Factor by which UCX_UD_VERBS_TIMER_TICK grows while the peer does not answer, at least 1.0."`
	Poke      config.Time  `ucx:"MIN_POKE_TIME" default:"250ms" doc:"Requests for an acknowledgment wake a sleeping peer once the time between them reaches this."`
	DGIDCheck bool         `ucx:"ETH_DGID_CHECK" default:"y" doc:"Drop Ethernet packets that were not sent to an address of the port, and those whose source is not the address that the sender claims."`
	Async     bool         `ucx:"ASYNC" default:"n" doc:"Answer peers and send lost packets again even while the program makes no progress, by a goroutine; this costs a lock for each call. C UCX has no such setting."`
	MaxWindow config.Count `ucx:"MAX_WINDOW" default:"1025" doc:"Largest number of packets of an endpoint in flight, plus one; 2 to 1025."`
}

// bufSettings are settings of all transports whose defaults differ between transports.
type bufSettings struct {
	Common     commonSettings `prefix:""`
	SegSize    config.Bytes   `ucx:"SEG_SIZE" default:"8k" doc:"Largest size of packets; that of the port may be less."`
	RxQueueLen config.Count   `ucx:"RX_QUEUE_LEN" default:"4096" doc:"Length of the receive queue."`
}

// commonSettings are settings of all transports (uct_iface_config_table).
type commonSettings struct {
	MaxNumEPs config.Count `ucx:"MAX_NUM_EPS" default:"inf" doc:"Expected maximum number of endpoints (scaling hint, not a limit). If the program or UCX_NUM_EPS expects more, ud is used only to peers that no other transport with a sufficient number reaches."`
}

// Bounds of settings.
const (
	minSegSize = 128
	maxQueue   = 1 << 15
)

// check returns an error for a value that is meaningless or too large for its use.
func (s *settings) check() error {
	u := &s.UD
	for _, c := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"SEG_SIZE", u.Buffers.SegSize.Int(0), minSegSize, 1 << 20},
		{"RX_QUEUE_LEN", u.Buffers.RxQueueLen.Int(0), 1, maxQueue},
		{"MAX_WINDOW", u.MaxWindow.Int(0), flow.MinWindow, flow.MaxWindow},
	} {
		if c.value < c.low || c.value > c.high {
			return fmt.Errorf("ud: UCX_UD_VERBS_%s is %d, expected %d to %d: %w", c.name, c.value, c.low, c.high, ucs.ErrInvalidParam)
		}
	}
	switch tick, timeout := u.Tick.Duration(0), u.Timeout.Duration(0); {
	case tick < 10*time.Microsecond:
		return fmt.Errorf("ud: UCX_UD_VERBS_TIMER_TICK is %v, expected 10us at least: %w", tick, ucs.ErrInvalidParam)
	case timeout < 4*tick:
		return fmt.Errorf("ud: UCX_UD_VERBS_TIMEOUT is %v, expected four times TIMER_TICK at least: %w", timeout, ucs.ErrInvalidParam)
	case !(u.Backoff >= 1):
		return fmt.Errorf("ud: UCX_UD_VERBS_TIMER_BACKOFF is %v, expected 1 at least: %w", u.Backoff, ucs.ErrInvalidParam)
	}
	return nil
}
