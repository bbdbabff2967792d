package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// mapping says that a memory domain of ours maps what one of the peer's has
// allocated. It takes no lane.
type mapping struct {
	peerMD uint8 // as the peer's keys number it
	md     uint8 // index in the context
	iface  *iface
	kin    bool // the peer does the same with memory of ours
}

// mappings finds the domains that have an interface which reaches one of the
// peer's with the same transport. C maps memory of domains that register any, as
// xpmem, not of these: neither release packs their keys or looks for them
// (local_md_flags in ucp_wireup_add_rma_bw_lanes).
func (ep *Endpoint) mappings(addr *proto.WorkerAddress) (list []mapping) {
	const flags = uct.MDFlagNeedRkey | uct.MDFlagRkeyPtr
	for local, i := range ep.w.ifaces {
		if ep.w.mds[i.md].Attr().Flags&flags != flags {
			continue
		}
		addr.Ifaces(func(n int, d *proto.AddressDevice, f *proto.AddressIface) bool {
			at := uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr}
			if f.Transport != i.id || ep.refused()[laneRoute{local, n}] != nil || ep.reaches(i.uct, at) != nil {
				return true
			}
			k, ok := i.uct.(uct.KinFinder)
			list = append(list, mapping{peerMD: d.MD, md: uint8(i.md), iface: i, kin: ok && addr.Release == 0 && k.Kin(at)})
			return false
		})
	}
	return list
}

// reaches says whether an interface reaches the endpoint's peer at an address.
func (ep *Endpoint) reaches(i uct.Iface, p uct.ReachableParams) error {
	f, ok := i.(uct.ProcessFinder)
	if !ok {
		return i.Reachable(p)
	}
	process, err := f.FindProcess(p, nil)
	if err != nil {
		return err
	}
	return ep.meet(process)
}

// meet is told which process of this machine a lane leads to. All lead to the one
// of the first: an address could name memory of somebody else besides its own.
func (ep *Endpoint) meet(p uct.Process) error {
	if ep.process == 0 {
		ep.process = p
	}
	if ep.process != p {
		return fmt.Errorf("ucp: the address leads to another process than the lanes before it: %w", ucs.ErrUnreachable)
	}
	return nil
}
