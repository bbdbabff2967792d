//go:build linux

package rdmacm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// attrMask are the attributes that package verbs supports. Kernels before 4.7 also return others,
// for RoCE, which are not for programs. Alternate paths, which package verbs does not support, are
// never requested here.
const attrMask = verbs.QPAttrState | verbs.QPAttrAccess | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrQKey |
	verbs.QPAttrAH | verbs.QPAttrPathMTU | verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetry |
	verbs.QPAttrRQPSN | verbs.QPAttrMaxRdAtomic | verbs.QPAttrMinRNRTimer | verbs.QPAttrSQPSN |
	verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrDestQPN

// InitQPAttr returns the attributes that take a queue pair to a state; rdma_init_qp_attr. They
// follow from the handshake: those for verbs.QPInit are known once there is a device, those for
// verbs.QPRTR and verbs.QPRTS once the peer is known. The result is for verbs.QP.Modify.
func (id *ID) InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	var r cmabi.QpAttr
	req := cmabi.InitQpAttr{Id: id.handle, QpState: uint32(state)}
	if err := id.do(cmabi.RDMA_USER_CM_CMD_INIT_QP_ATTR, cmabi.Bytes(&req), cmabi.Bytes(&r)); err != nil {
		return verbs.QPAttr{}, 0, err
	}
	return verbs.QPAttr{
		State: verbs.QPState(r.QpState), CurState: verbs.QPState(r.CurQpState), PathMTU: verbs.MTU(r.PathMtu),
		QKey: verbs.QKey(r.Qkey), RQPSN: verbs.PSN(r.RqPsn), SQPSN: verbs.PSN(r.SqPsn), DestQPN: verbs.QPN(r.DestQpNum),
		Access: verbs.Access(r.QpAccessFlags), AH: ahAttr(&r.AhAttr), PKeyIndex: r.PkeyIndex, Port: r.PortNum,
		MaxRdAtomic: r.MaxRdAtomic, MaxDestRdAtomic: r.MaxDestRdAtomic, MinRNRTimer: r.MinRnrTimer, Timeout: r.Timeout,
		RetryCount: r.RetryCnt, RNRRetry: r.RnrRetry,
	}, verbs.QPAttrMask(r.QpAttrMask) & attrMask, nil
}

// set takes a queue pair to a state; change may modify the kernel's attributes.
func (id *ID) set(qp *verbs.QP, state verbs.QPState, change func(*verbs.QPAttr)) error {
	a, mask, err := id.InitQPAttr(state)
	if err != nil {
		return err
	}
	if change != nil {
		change(&a)
	}
	return qp.Modify(&a, mask)
}

// InitQP prepares a new queue pair of the ID's device: it takes a connected one to
// verbs.QPInit, where receives can be posted, and one of datagrams to verbs.QPRTS.
// rdma_create_qp does the same after it has made one.
func (id *ID) InitQP(qp *verbs.QP) error {
	if qp.Type() != id.typ {
		return fmt.Errorf("rdmacm: a queue pair of type %v, not %v: %w", qp.Type(), id.typ, ucs.ErrInvalidParam)
	}
	if err := id.set(qp, verbs.QPInit, nil); err != nil || id.typ != verbs.UD {
		return err
	}
	if err := qp.Modify(&verbs.QPAttr{State: verbs.QPRTR}, verbs.QPAttrState); err != nil {
		return err
	}
	return qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState|verbs.QPAttrSQPSN)
}

// ConnectQP takes a prepared queue pair to verbs.QPRTS: before Accept, with the p of
// Accept, or after EventConnectResponse, where p may be nil for as many reads and atomics
// as the peer permits. Peers may write, and read if there is room for it; see
// verbs.AccessRemoteWrite and the constants beside it.
func (id *ID) ConnectQP(qp *verbs.QP, p *ConnParam) error {
	// Again, now with the access rights of the peer.
	if err := id.set(qp, verbs.QPInit, nil); err != nil {
		return err
	}
	err := id.set(qp, verbs.QPRTR, func(a *verbs.QPAttr) {
		if p != nil {
			a.MaxDestRdAtomic = p.ResponderResources
		}
	})
	if err != nil {
		return err
	}
	return id.set(qp, verbs.QPRTS, func(a *verbs.QPAttr) {
		if p != nil {
			a.MaxRdAtomic = p.InitiatorDepth
		}
	})
}
