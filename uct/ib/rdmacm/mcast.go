//go:build linux

package rdmacm

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Multicast is the membership of an ID in a group.
type Multicast struct {
	id     *ID
	uid    uint64
	handle uint32
	addr   netip.Addr
}

// Addr returns the address of the group.
func (m *Multicast) Addr() netip.Addr { return m.addr }

// joined completes the parameters of an EventMulticastJoin with the queue pair number for sends to
// a group, which stands for all queue pairs.
func (m *Multicast) joined(p *UDParam) { p.QPN = verbs.QPN(maxQPNumber) }

// JoinMulticast joins a group with the ID, which must have a device; with sendOnly it does
// not receive; rdma_join_multicast_ex. EventMulticastJoin follows with the address and key
// of the group, for verbs.PD.CreateAH and, to receive, for verbs.QP.AttachMcast with
// UDParam.AH.DGID and DLID; or EventMulticastError.
func (id *ID) JoinMulticast(addr netip.Addr, sendOnly bool) (*Multicast, error) {
	m := &Multicast{id: id, uid: lastUID.Add(1), addr: addr}
	req := cmabi.JoinMcast{Uid: m.uid, Id: id.handle, JoinFlags: cmabi.RDMA_MC_JOIN_FLAG_FULLMEMBER}
	if sendOnly {
		req.JoinFlags = cmabi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
	}
	var err error
	if req.AddrSize, err = putSockaddr(&req.Addr, netip.AddrPortFrom(addr, 0)); err != nil {
		return nil, err
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.closed {
		return nil, errClosed
	}
	c := id.ch
	if !c.adopt(id, []*Multicast{m}) { // before the event can arrive
		return nil, errClosed
	}
	var resp cmabi.CreateIdResp
	if err := c.do(cmabi.RDMA_USER_CM_CMD_JOIN_MCAST, cmabi.Bytes(&req), cmabi.Bytes(&resp)); err != nil {
		c.mu.Lock()
		delete(c.groups, m.uid)
		c.mu.Unlock()
		return nil, err
	}
	m.handle = resp.Id
	return m, nil
}

// Leave leaves the group; rdma_leave_multicast. An attached queue pair must be detached
// first. No event of m is delivered any more.
func (m *Multicast) Leave() error {
	m.id.mu.Lock()
	defer m.id.mu.Unlock()
	c := m.id.ch
	c.mu.Lock()
	_, member := c.groups[m.uid]
	delete(c.groups, m.uid)
	c.mu.Unlock()
	if m.id.closed || !member {
		return fmt.Errorf("rdmacm: not a member of the multicast group %v: %w", m.addr, ucs.ErrNoElem)
	}
	var resp cmabi.DestroyIdResp
	return c.do(cmabi.RDMA_USER_CM_CMD_LEAVE_MCAST, cmabi.Bytes(&cmabi.DestroyId{Id: m.handle}), cmabi.Bytes(&resp))
}
