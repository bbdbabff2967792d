package ucp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
)

// Explanation says which lanes and protocols an endpoint uses, and why.
type Explanation struct {
	Endpoint string
	Peer     uint64 // the peer's worker
	Release  int    // minor release the peer announces, 0 for none

	Lanes []string         // one line per lane, in the layout of ucx_info -e
	Trace *proto.LaneTrace // every candidate, its score or why it was left out

	// Protocols are the tables for tagged sends of contiguous memory, from which
	// size what is used: plain, synchronous, with OpFastComplete and with
	// OpMultiSend; then those of a rendezvous. Where the peer's memory can be
	// mapped, and ours by it, there are those for memory of MemMapAllocate.
	Protocols []proto.TableInfo

	// Unused are the transports that are not used at all, with the reason.
	Unused []string
}

// Explain says which lanes and protocols the endpoint uses, from what size, and
// why the others were not chosen.
func (ep *Endpoint) Explain() Explanation {
	w := ep.w
	e := Explanation{Endpoint: ep.describe()}
	addr := &w.described
	if ep.peer != nil {
		addr = ep.peer.address
	}
	e.Peer, e.Release = addr.UUID, addr.Release
	lanes, trace, _ := w.selectLanes(addr, ep.errMode, ep.refused)
	e.Lanes, e.Trace = lanes.Lines(), &trace
	e.Protocols = ep.cfg.explain(w, ep)
	for _, s := range slices.Concat(w.unopened, w.ctx.skipped) {
		e.Unused = append(e.Unused, s.String())
	}
	return e
}

// String prints the explanation for people.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "endpoint %s to worker %#x", e.Endpoint, e.Peer)
	if e.Release != 0 {
		fmt.Fprintf(&b, ", release 1.%d", e.Release)
	}
	b.WriteByte('\n')
	for _, l := range e.Lanes {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	b.WriteString(e.Trace.String())
	for i := range e.Protocols {
		b.WriteString(e.Protocols[i].String())
	}
	for _, u := range e.Unused {
		fmt.Fprintf(&b, "not used: %s\n", u)
	}
	return b.String()
}
