//go:build linux

package verbs

import (
	"fmt"
	"sync"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// mcastGroups are the multicast groups that a queue pair is attached to.
type mcastGroups struct {
	mu   sync.Mutex
	list map[mcastGroup]bool // under mu
}

type mcastGroup struct {
	gid GID
	lid LID
}

// AttachMcast makes a datagram queue pair receive the datagrams to a multicast group;
// ibv_attach_mcast. gid and lid are the group's; lid is 0 with RoCE. The host must also be a member
// of the group, so that the network delivers the group's packets to it.
func (q *QP) AttachMcast(gid GID, lid LID) error {
	q.mcast.mu.Lock()
	defer q.mcast.mu.Unlock()
	g := mcastGroup{gid, lid}
	if err := q.callMcast(abi.IB_USER_VERBS_CMD_ATTACH_MCAST, g); err != nil {
		return err
	}
	if q.mcast.list == nil {
		q.mcast.list = make(map[mcastGroup]bool)
	}
	q.mcast.list[g] = true
	return nil
}

// DetachMcast undoes AttachMcast; ibv_detach_mcast.
func (q *QP) DetachMcast(gid GID, lid LID) error {
	q.mcast.mu.Lock()
	defer q.mcast.mu.Unlock()
	g := mcastGroup{gid, lid}
	if err := q.callMcast(abi.IB_USER_VERBS_CMD_DETACH_MCAST, g); err != nil {
		return err
	}
	delete(q.mcast.list, g)
	return nil
}

// detachAllMcast detaches the queue pair from all groups. It ignores errors of the kernel.
func (q *QP) detachAllMcast() {
	q.mcast.mu.Lock()
	defer q.mcast.mu.Unlock()
	for g := range q.mcast.list {
		q.callMcast(abi.IB_USER_VERBS_CMD_DETACH_MCAST, g) // after an error QP.Close fails
	}
	q.mcast.list = nil
}

// callMcast makes the call that attaches the queue pair to a group or detaches it.
func (q *QP) callMcast(command uint32, g mcastGroup) error {
	if q.typ != UD {
		return fmt.Errorf("verbs: QP %#x: multicast with a queue pair of type %v: %w", uint32(q.qpn), q.typ, ucs.ErrInvalidParam)
	}
	return q.pd.ctx.invoke(command, abi.Bytes(&abi.AttachMcast{Gid: g.gid, QpHandle: q.handle, Mlid: uint16(g.lid)}), nil)
}
