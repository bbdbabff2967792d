//go:build linux

package verbs

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// QPAttr holds attributes of a queue pair, for Modify and Query; struct ibv_qp_attr.
type QPAttr struct {
	State           QPState
	CurState        QPState
	PathMTU         MTU
	QKey            QKey
	RQPSN           PSN
	SQPSN           PSN
	DestQPN         QPN
	Access          Access // what the peer may do through the queue pair
	AH              AHAttr // the path to the peer
	PKeyIndex       uint16
	Port            uint8
	MaxRdAtomic     uint8 // reads and atomics in flight that this queue pair may start
	MaxDestRdAtomic uint8 // reads and atomics in flight that the peer may start
	MinRNRTimer     uint8 // code of the time that a sender waits after an RNR NAK, 0 is the longest
	Timeout         uint8 // timeout of an acknowledgement: 4.096 µs · 2^n, 0 means none
	RetryCount      uint8 // up to 7; rxe retries forever at 7
	RNRRetry        uint8 // up to 7, which means forever
	SQDrainEvent    bool  // report EventSQDrained when the requests in flight are done
	SQDraining      bool  // only set by Query
	Cap             QPCap // only set by Query
	SigAll          bool  // only set by Query
}

// QPAttrMask selects fields of a QPAttr.
type QPAttrMask uint32

// Fields of QPAttr; enum ib_qp_attr_mask, ib_verbs.h.
const (
	QPAttrState           QPAttrMask = 1 << 0
	QPAttrCurState        QPAttrMask = 1 << 1
	QPAttrSQDrainEvent    QPAttrMask = 1 << 2
	QPAttrAccess          QPAttrMask = 1 << 3
	QPAttrPKeyIndex       QPAttrMask = 1 << 4
	QPAttrPort            QPAttrMask = 1 << 5
	QPAttrQKey            QPAttrMask = 1 << 6
	QPAttrAH              QPAttrMask = 1 << 7
	QPAttrPathMTU         QPAttrMask = 1 << 8
	QPAttrTimeout         QPAttrMask = 1 << 9
	QPAttrRetryCount      QPAttrMask = 1 << 10
	QPAttrRNRRetry        QPAttrMask = 1 << 11
	QPAttrRQPSN           QPAttrMask = 1 << 12
	QPAttrMaxRdAtomic     QPAttrMask = 1 << 13
	QPAttrMinRNRTimer     QPAttrMask = 1 << 15
	QPAttrSQPSN           QPAttrMask = 1 << 16
	QPAttrMaxDestRdAtomic QPAttrMask = 1 << 17
	QPAttrCap             QPAttrMask = 1 << 19 // for Query only
	QPAttrDestQPN         QPAttrMask = 1 << 20
)

var attrNames = map[QPAttrMask]string{
	QPAttrState: "State", QPAttrCurState: "CurState", QPAttrSQDrainEvent: "SQDrainEvent", QPAttrAccess: "Access",
	QPAttrPKeyIndex: "PKeyIndex", QPAttrPort: "Port", QPAttrQKey: "QKey", QPAttrAH: "AH", QPAttrPathMTU: "PathMTU",
	QPAttrTimeout: "Timeout", QPAttrRetryCount: "RetryCount", QPAttrRNRRetry: "RNRRetry", QPAttrRQPSN: "RQPSN",
	QPAttrMaxRdAtomic: "MaxRdAtomic", QPAttrMinRNRTimer: "MinRNRTimer", QPAttrSQPSN: "SQPSN",
	QPAttrMaxDestRdAtomic: "MaxDestRdAtomic", QPAttrCap: "Cap", QPAttrDestQPN: "DestQPN",
}

// String returns the names of the selected fields, joined by |.
func (m QPAttrMask) String() string {
	var names []string
	for bit := QPAttrMask(1); bit != 0; bit <<= 1 {
		if m&bit == 0 {
			continue
		}
		if n := attrNames[bit]; n != "" {
			names = append(names, n)
		} else {
			names = append(names, fmt.Sprintf("%#x", uint32(bit)))
		}
	}
	return strings.Join(names, "|")
}

const mask24 = 1<<24 - 1

// Modify sets the fields in mask, including the state; ibv_modify_qp. It checks which
// fields the change of state requires and permits, and its errors name them. With RoCE a
// change to QPRTR resolves the peer's address, which may take seconds.
func (q *QP) Modify(a *QPAttr, mask QPAttrMask) error {
	from := q.State()
	if mask&QPAttrCurState != 0 {
		from = a.CurState
	}
	to := from
	if mask&QPAttrState != 0 {
		to = a.State
	}
	if err := checkModify(q.typ, from, to, a, mask); err != nil {
		return fmt.Errorf("verbs: QP %#x: %w: %w", uint32(q.qpn), err, ucs.ErrInvalidParam)
	}
	req := abi.ModifyQp{
		QpHandle: q.handle, AttrMask: uint32(mask), Qkey: uint32(a.QKey), RqPsn: uint32(a.RQPSN) & mask24,
		SqPsn: uint32(a.SQPSN) & mask24, DestQpNum: uint32(a.DestQPN), QpAccessFlags: uint32(a.Access), PkeyIndex: a.PKeyIndex,
		QpState: uint8(a.State), CurQpState: uint8(a.CurState), PathMtu: uint8(a.PathMTU), EnSqdAsyncNotify: flag(a.SQDrainEvent),
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRnrTimer: a.MinRNRTimer, PortNum: a.Port,
		Timeout: a.Timeout, RetryCnt: a.RetryCount, RnrRetry: a.RNRRetry,
	}
	if mask&QPAttrAH != 0 {
		req.Dest = a.AH.dest()
	}
	if err := q.pd.ctx.invoke(abi.IB_USER_VERBS_CMD_MODIFY_QP, abi.Bytes(&req), nil); err != nil {
		return err
	}
	q.setState(to)
	if mask&QPAttrState != 0 && to == QPReset {
		q.post.drop()
		q.drv.Reset()
	}
	return nil
}

// Query reads the attributes in mask, and possibly others, from the kernel; ibv_query_qp.
func (q *QP) Query(mask QPAttrMask) (QPAttr, error) {
	var r abi.QueryQpResp
	if err := q.pd.ctx.invoke(abi.IB_USER_VERBS_CMD_QUERY_QP, abi.Bytes(&abi.QueryQp{QpHandle: q.handle, AttrMask: uint32(mask)}), abi.Bytes(&r)); err != nil {
		return QPAttr{}, err
	}
	if mask&QPAttrState != 0 {
		q.setState(QPState(r.QpState))
	}
	return QPAttr{
		State: QPState(r.QpState), CurState: QPState(r.CurQpState), PathMTU: MTU(r.PathMtu), QKey: QKey(r.Qkey), RQPSN: PSN(r.RqPsn),
		SQPSN: PSN(r.SqPsn), DestQPN: QPN(r.DestQpNum), Access: Access(r.QpAccessFlags), AH: ahAttr(&r.Dest), PKeyIndex: r.PkeyIndex,
		Port: r.PortNum, MaxRdAtomic: r.MaxRdAtomic, MaxDestRdAtomic: r.MaxDestRdAtomic, MinRNRTimer: r.MinRnrTimer,
		Timeout: r.Timeout, RetryCount: r.RetryCnt, RNRRetry: r.RnrRetry, SQDraining: r.SqDraining != 0, SigAll: r.SqSigAll != 0,
		Cap: q.cap, // the kernel does not know what fits into queues that it did not lay out
	}, nil
}
