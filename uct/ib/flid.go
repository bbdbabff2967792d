//go:build linux

package ib

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Subnets of one site of InfiniBand may be joined by routers that forward by LID: the GID of a
// port has in it the LID, in all other subnets, of the router to its own (FLID). The entry of
// the table of GIDs that is made for that is the second one, with an alias of the port's
// number (uct_ib_iface_gid_index).

// flidIndex is that entry (UCT_IB_DEVICE_ROUTABLE_FLID_GID_INDEX).
const flidIndex = 1

// openIB begins such an alias (UCT_IB_GUID_OPENIB_OUI).
var openIB = [3]byte{0x00, 0x14, 0x05}

// flidOf is the FLID in a GID, 0 if it has none.
func flidOf(g verbs.GID) verbs.LID {
	if [4]byte(g[:4]) != [4]byte(sitePrefix[:4]) {
		return 0
	}
	return verbs.LID(binary.BigEndian.Uint16(g[4:]))
}

// routable reports whether a GID is made for that.
func routable(g verbs.GID) bool { return flidOf(g) != 0 && [3]byte(g[8:11]) == openIB }

// router is the LID that packets to a port go to: its own or, in another subnet, that of the
// router (uct_ib_iface_resolve_remote_flid).
func (i *Iface) router(a *Address) verbs.LID {
	own := i.source.GID
	if !a.Global || !i.flid || flidOf(own) == 0 || [2]byte(a.GID[6:8]) == [2]byte(own[6:8]) {
		return a.LID
	}
	if l := flidOf(a.GID); l != 0 {
		return l
	}
	return a.LID
}
