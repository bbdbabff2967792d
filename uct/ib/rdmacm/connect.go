//go:build linux

package rdmacm

import (
	"fmt"
	"syscall"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/internal/ucm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// checkData checks private data against the size of the kernel's structs.
func checkData(data []byte) error {
	if len(data) > maxPrivateData {
		return fmt.Errorf("rdmacm: %d bytes of private data, the limit is %d: %w", len(data), maxPrivateData, ucs.ErrExceedsLimit)
	}
	return nil
}

// tooMuch adds a hint to an EINVAL if there is more data than the message has room for.
func (id *ID) tooMuch(err error, data []byte, rc, ud int) error {
	limit := rc
	if id.typ == verbs.UD {
		limit = ud
	}
	if len(data) > limit {
		return hint(err, syscall.EINVAL, fmt.Sprintf("%d bytes of private data, on InfiniBand and RoCE the limit is %d", len(data), limit))
	}
	return err
}

// Connect sends a connection request to the peer; rdma_connect. The route has been
// resolved, and p.QPN is a queue pair that InitQP has prepared. EventConnectResponse (then
// call ConnectQP and Establish), EventRejected or EventUnreachable follows. With datagrams
// EventEstablished, which describes the peer, or EventUnreachable follows.
func (id *ID) Connect(p *ConnParam) error {
	if err := checkData(p.PrivateData); err != nil {
		return err
	}
	req := cmabi.Connect{ConnParam: p.abi(), Id: id.handle}
	err := id.do(cmabi.RDMA_USER_CM_CMD_CONNECT, cmabi.Bytes(&req), nil)
	return id.tooMuch(err, p.PrivateData, MaxConnectData, MaxConnectDataUD)
}

// Accept accepts a connection request; rdma_accept. p.QPN is a queue pair that ConnectQP
// has taken to QPRTS; it must not send before EventEstablished, or before the peer has
// sent. With datagrams it is any queue pair of the device, and no event follows.
//
// The kernel reports no events of a request before Accept: if the peer has gone, Accept
// fails, or EventUnreachable follows.
func (id *ID) Accept(p *ConnParam) error {
	if err := checkData(p.PrivateData); err != nil {
		return err
	}
	req := cmabi.Accept{Uid: id.uid, ConnParam: p.abi(), Id: id.handle}
	err := id.do(cmabi.RDMA_USER_CM_CMD_ACCEPT, cmabi.Bytes(&req), nil)
	return id.tooMuch(err, p.PrivateData, MaxAcceptData, MaxAcceptDataUD)
}

// Establish tells the accepting peer that its answer has arrived and the queue pair here is
// ready; rdma_establish. If it fails, the peer is notified.
func (id *ID) Establish() error {
	req := cmabi.Accept{Id: id.handle} // without parameters: not valid
	return id.do(cmabi.RDMA_USER_CM_CMD_ACCEPT, cmabi.Bytes(&req), nil)
}

// Reject refuses a connection request; rdma_reject. The peer gets EventRejected with the
// data. The ID must still be closed.
func (id *ID) Reject(data []byte) error { return id.RejectReason(RejectConsumerDefined, data) }

// RejectReason is Reject with a reason: RejectConsumerDefined or, from Linux 5.10 on,
// RejectVendorOption; rdma_reject_ece.
func (id *ID) RejectReason(reason RejectReason, data []byte) error {
	if err := checkData(data); err != nil {
		return err
	}
	req := cmabi.Reject{Id: id.handle, PrivateDataLen: uint8(len(data))}
	copy(req.PrivateData[:], data)
	switch reason {
	case RejectConsumerDefined: // 0 is the same, on every kernel
	case RejectVendorOption:
		req.Reason = uint8(reason)
	default:
		return fmt.Errorf("rdmacm: rejecting for %v: %w", reason, ucs.ErrInvalidParam)
	}
	err := id.do(cmabi.RDMA_USER_CM_CMD_REJECT, cmabi.Bytes(&req), nil)
	return id.tooMuch(err, data, MaxRejectData, MaxAcceptDataUD)
}

// Disconnect ends the connection; rdma_disconnect. EventDisconnected arrives at both sides;
// the passive side has to call Disconnect, too, or Close. Queue pairs stay as they are: set
// them to verbs.QPErr first, so that their posted requests complete. If the peer has
// already ended the connection, that is no error.
func (id *ID) Disconnect() error {
	err := id.do(cmabi.RDMA_USER_CM_CMD_DISCONNECT, cmabi.Bytes(&cmabi.Disconnect{Id: id.handle}), nil)
	if ucm.Errno(err) == syscall.EINVAL {
		return fmt.Errorf("%w: %w", err, ucs.ErrNotConnected)
	}
	return err
}

// Notify passes an event of the queue pair to the connection manager; rdma_notify.
// verbs.EventCommEst, which occurs if the peer has sent before EventEstablished arrived,
// causes EventEstablished.
func (id *ID) Notify(event verbs.EventType) error {
	return id.do(cmabi.RDMA_USER_CM_CMD_NOTIFY, cmabi.Bytes(&cmabi.Notify{Id: id.handle, Event: uint32(event)}), nil)
}
