//go:build linux

package cma

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// settings are the variables UCX_CMA_*, with C UCX's names and defaults
// (uct_cma_iface_config_table, uct_scopy_iface_config_table, uct_sm_iface_config_table). Variables
// of C UCX without a meaning in this library are left out: op structs are not allocated from chunks
// (ALLOC, TX_BUFS_GROW and similar), and MEMORY_INVALIDATE would announce a feature that the
// transport does not have.
type settings struct {
	Scopy  scopySettings `prefix:"SCOPY_"`
	Others bool          `ucx:"OTHER_USERS" default:"n" doc:"Access processes of other users if the kernel permits it, which needs a privileged process. A process of another user can block this one forever. C UCX has no such setting and always accesses them."`
}

// scopySettings are the settings of all transports in which the kernel copies.
type scopySettings struct {
	SM        smSettings   `prefix:"SM_"`
	MaxIOV    uint         `ucx:"MAX_IOV" default:"16" doc:"Largest number of memory pieces in one operation."`
	SegSize   config.Bytes `ucx:"SEG_SIZE" default:"512K" doc:"Largest number of bytes to copy in one system call."`
	TxQuota   uint         `ucx:"TX_QUOTA" default:"1" doc:"Number of copying system calls in one round of progress."`
	TxMaxBufs int          `ucx:"TX_MAX_BUFS" default:"-1" doc:"Number of operations of an interface that may be in flight; -1 means no limit."`
}

// smSettings are the settings of all transports between processes of one host, with the defaults of
// cma.
type smSettings struct {
	Common commonSettings   `prefix:""`
	BW     config.Bandwidth `ucx:"BW" default:"11145MBs" doc:"Effective memory bandwidth that the interface reports in its attributes."`
}

// commonSettings are the settings that all transports have (uct_iface_config_table).
type commonSettings struct {
	Failure   log.Level    `ucx:"FAILURE" default:"DIAG" doc:"Log level of endpoint failures without an error handler."`
	MaxNumEPs config.Count `ucx:"MAX_NUM_EPS" default:"inf" doc:"Expected maximum number of endpoints (scaling hint, not a limit). If the program or UCX_NUM_EPS expects more, the transport is used only to peers that no other transport with a sufficient number reaches."`
}

func init() {
	config.Register(config.Section{
		Name:   name,
		Prefix: "CMA_",
		Title:  "cma transport",
		New:    func() any { return new(settings) },
		Check:  func(s *config.Set) error { _, err := loadOptions(s); return err },
	})
}

// Limits of settings.
const (
	defaultSegSize = 512 << 10
	maxSegSize     = 1 << 30
	maxIOV         = 1024 // UIO_MAXIOV
	defaultBW      = 11145 << 20
)

// options are the settings of an iface, validated and with defaults filled in.
type options struct {
	maxNumEPs int
	failure   log.Level
	bandwidth float64
	maxIOV    int
	segSize   int
	quota     int
	maxOps    int

	otherUsers bool
}

func loadOptions(cfg *config.Set) (options, error) {
	var s settings
	if err := cfg.Load(name, &s); err != nil {
		return options{}, err
	}
	scopy := &s.Scopy
	o := options{
		maxNumEPs: scopy.SM.Common.MaxNumEPs.Int(uct.Unlimited),
		failure:   scopy.SM.Common.Failure,
		bandwidth: float64(scopy.SM.BW),
		maxIOV:    int(min(scopy.MaxIOV, maxIOV)),
		segSize:   min(scopy.SegSize.Int(defaultSegSize), maxSegSize),
		quota:     int(min(scopy.TxQuota, 1<<30)),
		maxOps:    scopy.TxMaxBufs,

		otherUsers: s.Others,
	}
	if scopy.SM.BW.IsAuto() {
		o.bandwidth = defaultBW
	}
	if o.maxOps < 0 {
		o.maxOps = uct.Unlimited
	}
	for _, v := range []struct {
		name  string
		value int
	}{
		{"MAX_IOV", o.maxIOV}, {"SEG_SIZE", o.segSize}, {"TX_QUOTA", o.quota}, {"TX_MAX_BUFS", o.maxOps},
	} {
		if v.value < 1 {
			return o, fmt.Errorf("cma: UCX_CMA_%s is %d, need at least 1: %w", v.name, v.value, ucs.ErrInvalidParam)
		}
	}
	return o, nil
}
