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

// exposure is memory of a request that is registered as long as the request
// lives: for a peer to reach it, or for a lane of ours that needs a local handle.
type exposure struct {
	md       uct.MemoryDomain
	mem      uct.MemHandle
	local    bool // a handle of this side's
	borrowed bool // somebody else's registration
}

// expose opens the user's memory to the peer as long as the request lives, and
// notes its address in part. If a domain refuses, it stays closed.
func (r *Request) expose(buf []byte, guards []uct.MemoryDomain, access uct.Access) {
	for _, md := range guards {
		mem, err := md.Register(buf, access)
		if err != nil {
			r.conceal()
			return
		}
		r.exposed = append(r.exposed, exposure{md: md, mem: mem})
	}
	r.part.addr = memoryAddress(buf)
}

// conceal closes it again.
func (r *Request) conceal() {
	for _, e := range r.exposed {
		if e.borrowed {
			continue
		}
		// It is a registration of ours: there is nothing it could be refused for.
		_ = e.md.Deregister(e.mem)
	}
	clear(r.exposed)
	r.exposed = r.exposed[:0]
}
