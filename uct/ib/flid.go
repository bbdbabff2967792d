//go:build linux

package ib

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Routers that forward by LID may join the subnets of an InfiniBand site. The GID of a port
// then contains an FLID: the LID that the router to the port's subnet has in all other subnets.
// The GID for such routes is the second entry of the GID table. Its interface id is an alias of
// the port's GUID (uct_ib_iface_gid_index).

// flidIndex is the index of the GID with an FLID (UCT_IB_DEVICE_ROUTABLE_FLID_GID_INDEX).
const flidIndex = 1

// openIB holds the first bytes of an alias GUID (UCT_IB_GUID_OPENIB_OUI).
var openIB = [3]byte{0x00, 0x14, 0x05}

// flidOf returns the FLID in a GID, 0 if it has none.
func flidOf(g verbs.GID) verbs.LID {
	if [4]byte(g[:4]) != [4]byte(sitePrefix[:4]) {
		return 0
	}
	return verbs.LID(binary.BigEndian.Uint16(g[4:]))
}

// routable reports whether a GID is for routes by FLID.
func routable(g verbs.GID) bool { return flidOf(g) != 0 && [3]byte(g[8:11]) == openIB }

// router returns the LID that packets to a port are sent to. It is the LID of the port or, for a
// port in another subnet, the LID of the router (uct_ib_iface_resolve_remote_flid).
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
