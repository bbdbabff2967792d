//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// settings are the variables UCX_RDMA_CM_*, with C UCX's names and defaults
// (uct_rdmacm_cm_config_table, uct_cm_config_table).
type settings struct {
	Common      connkit.Settings `prefix:"CM_"`
	Source      string           `ucx:"SOURCE_ADDRESS" default:"" doc:"Local address that clients connect from if the application gives none; empty means that the routing table selects it."`
	Timeout     config.Time      `ucx:"TIMEOUT" default:"10s" doc:"Time for resolving an address, and again for resolving the route to it."`
	ReservedQPN config.Ternary   `ucx:"RESERVED_QPN" default:"try" doc:"Take queue pair numbers from a reserved range of the device: y, n, or try. No supported device has one; y is refused."`
}

const section = "rdma_cm"

func init() {
	config.Register(config.Section{
		Name:   section,
		Prefix: "RDMA_CM_",
		Title:  "RDMA-CM connection manager",
		New:    func() any { return new(settings) },
		Check:  checkSettings,
	})
}

// checkSettings returns an error if a value is wrong. A value that no device supports is not
// wrong.
func checkSettings(cfg *config.Set) error {
	_, err := loadOptions(cfg)
	if errors.Is(err, ucs.ErrUnsupported) {
		return nil
	}
	return err
}

// maxTimeout fits into the kernel's count of milliseconds, and is longer than any useful wait.
const (
	maxTimeout     = 24 * time.Hour
	defaultTimeout = 10 * time.Second
)

// options are the settings after checks, with defaults filled in.
type options struct {
	common  connkit.Settings
	source  netip.Addr // not valid: the routing table selects the local address
	timeout time.Duration
}

func loadOptions(cfg *config.Set) (options, error) {
	var s settings
	if err := cfg.Load(section, &s); err != nil {
		return options{}, err
	}
	o := options{common: s.Common, timeout: maxTimeout}
	if s.Timeout != config.TimeInf {
		o.timeout = min(s.Timeout.Duration(defaultTimeout), maxTimeout)
	}
	if s.Source != "" {
		var err error
		if o.source, err = netip.ParseAddr(s.Source); err != nil {
			return o, fmt.Errorf("rdmacm: UCX_RDMA_CM_SOURCE_ADDRESS is %q, expected an IP address: %w", s.Source, ucs.ErrInvalidParam)
		}
		o.source = o.source.Unmap()
	}
	if s.ReservedQPN == config.Yes {
		return o, fmt.Errorf("rdmacm: UCX_RDMA_CM_RESERVED_QPN is y, which no device supports here: %w", ucs.ErrUnsupported)
	}
	return o, nil
}
