//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// typeOps are the operations that the types of queue pairs have, a bit each.
var typeOps = map[QPType]uint32{
	RC: 1<<WRRDMAWrite | 1<<WRRDMAWriteWithImm | 1<<WRSend | 1<<WRSendWithImm | 1<<WRRDMARead | atomicOps | windowOps,
	UC: 1<<WRRDMAWrite | 1<<WRRDMAWriteWithImm | 1<<WRSend | 1<<WRSendWithImm | 1<<WRBindMW,
	UD: 1<<WRSend | 1<<WRSendWithImm,
}

const (
	atomicOps = 1<<WRAtomicCmpAndSwp | 1<<WRAtomicFetchAndAdd
	windowOps = 1<<WRLocalInv | 1<<WRBindMW | 1<<WRSendWithInv
)

// lackings are the errors of the features that a provider does not have.
type lackings [provider.Features]error

// askFeatures asks a provider once: posting does not make errors. device is what they
// call it.
func askFeatures(device, name string, c provider.Context) (l lackings) {
	for f := range provider.Features {
		if why := c.Lacks(f); why != "" {
			l[f] = fmt.Errorf("verbs: %s: %v with %s: %s: %w", device, f, name, why, ucs.ErrUnsupported)
		}
	}
	return l
}

// lacksType is why there are no queue pairs of a type, nil if there are.
func (c *Context) lacksType(t QPType) error {
	switch t {
	case UC:
		return c.lacks[provider.FeatureUC]
	case UD:
		return c.lacks[provider.FeatureUD]
	}
	return nil
}

// operations are those that queue pairs of a type do here, a bit each.
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

// refusal is why an operation is not one of the queue pair.
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
