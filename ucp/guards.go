package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// guards are the memory domains that let peers, without a key, at registered
// memory only. Which lanes a peer uses is its own choice, so memory that is
// offered to it is registered with all of them.
type guards struct {
	put, get []uct.MemoryDomain
}

// add takes the domain of an interface, if it is one.
func (g *guards) add(md uct.MemoryDomain, a *uct.IfaceAttr) {
	f := md.Attr().Flags
	if f&uct.MDFlagRegister == 0 || f&uct.MDFlagNeedRkey != 0 {
		return
	}
	if a.Flags.Has(uct.IfacePutZcopy) && !slices.Contains(g.put, md) {
		g.put = append(g.put, md)
	}
	if a.Flags.Has(uct.IfaceGetZcopy) && !slices.Contains(g.get, md) {
		g.get = append(g.get, md)
	}
}
