package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
)

// Names of the settings sections of the domain and of ifaces.
const (
	domainSection = "self memory domain"
	ifaceSection  = "self"
)

// Limits of the setting SEG_SIZE.
const (
	minSegSize = 64 // room for the headers of the layer above
	maxSegSize = 1 << 30
	maxDevices = 64
)

func init() {
	config.Register(config.Section{
		Name:   domainSection,
		Prefix: "SELF_",
		Title:  "Self memory domain",
		New:    func() any { return new(domainSettings) },
		Check:  func(s *config.Set) error { _, err := loadDomainSettings(s); return err },
	})
	config.Register(config.Section{
		Name:   ifaceSection,
		Prefix: "SELF_",
		Title:  "self transport",
		New:    func() any { return new(ifaceSettings) },
		Check:  func(s *config.Set) error { _, err := loadIfaceSettings(s); return err },
	})
}

// domainSettings are read when the domain is opened.
type domainSettings struct {
	NumDevices int `ucx:"NUM_DEVICES" default:"1" doc:"Number of loopback devices."`
}

// ifaceSettings are read when an iface is opened. The setting ALLOC of C UCX is left out,
// because buffers come from the Go heap.
type ifaceSettings struct {
	Common  commonSettings `prefix:""`
	SegSize config.Bytes   `ucx:"SEG_SIZE" default:"8k" doc:"Largest message, and size of the buffers that messages are copied to."`
}

// commonSettings are the settings that all transports have (uct_iface_config_table).
type commonSettings struct {
	Failure   log.Level    `ucx:"FAILURE" default:"DIAG" doc:"Log level of failures of endpoints over self without an error handler."`
	MaxNumEPs config.Count `ucx:"MAX_NUM_EPS" default:"inf" doc:"Expected maximum number of endpoints (scaling hint, not a limit)."`
}

func loadDomainSettings(cfg *config.Set) (s domainSettings, err error) {
	if err := cfg.Load(domainSection, &s); err != nil {
		return s, err
	}
	if s.NumDevices < 1 || s.NumDevices > maxDevices {
		return s, fmt.Errorf("self: UCX_SELF_NUM_DEVICES is %d, not 1 to %d: %w",
			s.NumDevices, maxDevices, ucs.ErrInvalidParam)
	}
	return s, nil
}

func loadIfaceSettings(cfg *config.Set) (s ifaceSettings, err error) {
	if err := cfg.Load(ifaceSection, &s); err != nil {
		return s, err
	}
	if s.SegSize.IsAuto() {
		s.SegSize = 8 << 10
	}
	if s.SegSize < minSegSize || s.SegSize > maxSegSize {
		return s, fmt.Errorf("self: UCX_SELF_SEG_SIZE is %v, not %d bytes to %d: %w",
			s.SegSize, minSegSize, maxSegSize, ucs.ErrInvalidParam)
	}
	return s, nil
}
