package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// guards are the memory domains that let peers, without a key, at registered memory
// only. Which lanes a peer uses is its own choice, so memory that is offered to it is
// registered with all of them.
type guards struct {
	put, get []guard
}

// guardedBy takes the domain of an interface, if it is one.
func (w *Worker) guardedBy(i *iface) {
	md := w.mds[i.md]
	f := md.Attr().Flags
	if f&uct.MDFlagRegister == 0 || f&uct.MDFlagNeedRkey != 0 {
		return
	}
	g := guard{md: md, scope: w.scoperOf(i.md)}
	if i.attr.Flags.Has(uct.IfacePutZcopy) && !slices.Contains(w.guards.put, g) {
		w.guards.put = append(w.guards.put, g)
	}
	if i.attr.Flags.Has(uct.IfaceGetZcopy) && !slices.Contains(w.guards.get, g) {
		w.guards.get = append(w.guards.get, g)
	}
}

// scoperOf returns the index of a domain among those that can tell peers apart, -1 if
// it cannot.
func (w *Worker) scoperOf(md int) int {
	s, ok := w.mds[md].(uct.Scoper)
	if !ok {
		return -1
	}
	if k := slices.IndexFunc(w.scopers, func(s scoper) bool { return s.md == md }); k >= 0 {
		return k
	}
	w.scopers = append(w.scopers, scoper{Scoper: s, md: md})
	return len(w.scopers) - 1
}
