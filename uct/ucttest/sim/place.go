package sim

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Place is the location of a component's processes. Components with the same IP address are on
// the same machine.
type Place struct {
	IP      netip.Addr
	Process uct.Process
	UID     int
}

// placed is an iface that knows the locations of its peers (Place).
type placed struct {
	uct.BasicNetworkIface
	*iface
}

var _ interface {
	uct.Iface
	uct.NetworkIface
	uct.ProcessIface
} = placed{}

// owner returns the location and the number of the iface with the addresses p.
func (i placed) owner(p uct.ReachableParams) (*Place, uint64, error) {
	if err := i.Reachable(p); err != nil {
		return nil, 0, err
	}
	id := binary.LittleEndian.Uint64(p.IfaceAddr)
	i.net.mu.Lock()
	defer i.net.mu.Unlock()
	peer := i.net.ifaces[id]
	if peer == nil || peer.o.Place == nil {
		return nil, 0, fmt.Errorf("sim: location of iface %d is unknown: %w", id, ucs.ErrUnreachable)
	}
	return peer.o.Place, id, nil
}

// PeerAddr implements uct.NetworkIface.
func (i placed) PeerAddr(p uct.ReachableParams) (addr netip.AddrPort, here bool, err error) {
	at, id, err := i.owner(p)
	if err != nil {
		return addr, false, err
	}
	return netip.AddrPortFrom(at.IP, uint16(id)), at.IP == i.o.Place.IP, nil
}

// FindProcess implements uct.ProcessIface.
func (i placed) FindProcess(p uct.ReachableParams, may func(uct.Process) bool) (uct.Process, error) {
	at, _, err := i.owner(p)
	if err == nil && at.IP != i.o.Place.IP {
		err = fmt.Errorf("sim: the peer is on another machine: %w", ucs.ErrUnreachable)
	}
	if err == nil && may != nil && !may(at.Process) {
		err = fmt.Errorf("sim: the address does not belong to the requesting process: %w: %w", ucs.ErrRejected, ucs.ErrUnreachable)
	}
	if err != nil {
		return 0, err
	}
	return at.Process, nil
}

// FindSenders implements uct.ProcessIface.
func (i placed) FindSenders() (bool, error) {
	i.net.mu.Lock()
	defer i.net.mu.Unlock()
	return len(i.incoming) > 0 || len(i.inbox) > 0, nil
}

// located is a source that can identify its peer.
type located struct {
	uct.BasicConnection
	*source
}

var _ uct.Connection = located{}

// SourceInfo implements uct.Connection.
func (s located) SourceInfo() uct.SourceInfo {
	from := s.from.home.o.Place
	own := s.to.o.Place
	info := uct.SourceInfo{
		Addr: netip.AddrPortFrom(from.IP, uint16(1<<15+s.from.number)),
		User: uct.PeerUser{UID: -1, GID: -1, PID: -1},
	}
	if own != nil && own.IP == from.IP {
		info.Local, info.User.Known, info.User.UID = true, true, from.UID
	}
	return info
}

// HeldBy implements uct.Connection.
func (s located) HeldBy(p uct.Process) bool {
	return s.SourceInfo().Local && p != 0 && s.from.home.o.Place.Process == p
}

// PauseSource implements uct.Connection.
func (s located) PauseSource() { s.to.paused[s.from] = true }

// ResumeSource implements uct.Connection.
func (s located) ResumeSource() { delete(s.to.paused, s.from) }
