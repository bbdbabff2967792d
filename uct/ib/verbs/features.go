//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// typeOps has the operations that each type of queue pair supports, as a set of bits: 1<<WROpcode.
var typeOps = map[QPType]uint32{
	RC: 1<<WRRDMAWrite | 1<<WRRDMAWriteWithImm | 1<<WRSend | 1<<WRSendWithImm | 1<<WRRDMARead | atomicOps | windowOps,
	UC: 1<<WRRDMAWrite | 1<<WRRDMAWriteWithImm | 1<<WRSend | 1<<WRSendWithImm | 1<<WRBindMW,
	UD: 1<<WRSend | 1<<WRSendWithImm,
}

const (
	atomicOps = 1<<WRAtomicCmpAndSwp | 1<<WRAtomicFetchAndAdd
	windowOps = 1<<WRLocalInv | 1<<WRBindMW | 1<<WRSendWithInv
)

// missingFeatures is indexed by feature. For a feature that the provider lacks it has the error that using
// the feature returns, else nil.
type missingFeatures [provider.Features]error

// askFeatures returns the errors for the features that c lacks. They are allocated in advance,
// because posting must not allocate. The errors name the device (parameter device) and its driver
// (parameter name).
func askFeatures(device, name string, c provider.Context) (l missingFeatures) {
	for f := range provider.Features {
		if why := c.Lacks(f); why != "" {
			l[f] = fmt.Errorf("verbs: %s: %v with %s: %s: %w", device, f, name, why, ucs.ErrUnsupported)
		}
	}
	return l
}

// lacksType returns nil if the device supports queue pairs of type t, else the error for creating
// one.
func (c *Context) lacksType(t QPType) error {
	switch t {
	case UC:
		return c.lacks[provider.FeatureUC]
	case UD:
		return c.lacks[provider.FeatureUD]
	}
	return nil
}

// operations returns the operations that queue pairs of type t support on this device, as a set of
// bits: 1<<WROpcode.
func (c *Context) operations(t QPType) uint32 {
	ops := typeOps[t]
	if c.lacks[provider.FeatureAtomics] != nil {
		ops &^= atomicOps
	}
	if c.lacks[provider.FeatureMW] != nil {
		ops &^= windowOps
	}
	return ops
}

// refusal returns the error for posting op, an operation that the queue pair does not support.
func (q *QP) refusal(op WROpcode) error {
	lacks := &q.pd.ctx.lacks
	switch has := typeOps[q.typ] >> op & 1; {
	case has != 0 && atomicOps>>op&1 != 0:
		return lacks[provider.FeatureAtomics]
	case has != 0 && windowOps>>op&1 != 0:
		return lacks[provider.FeatureMW]
	}
	return errOpcode
}
