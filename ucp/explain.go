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

	Lanes []string // one line per lane it has, in the layout of ucx_info -e

	// Trace is how they were chosen: every candidate, its score or why it was left
	// out. It is nil if that cannot be told any more.
	Trace *proto.LaneTrace

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
	addr := ep.peerAddress()
	e.Peer, e.Release = addr.UUID, addr.Release
	if len(ep.lanes) > 0 {
		e.Lanes = ep.cfg.chosen.Lines()
	}
	e.Trace = ep.reasons(addr)
	e.Protocols = ep.cfg.explain(w, ep)
	for _, s := range slices.Concat(w.unopened, w.ctx.skipped) {
		e.Unused = append(e.Unused, s.String())
	}
	return e
}

// peerAddress is the address of the endpoint's peer as it came last.
func (ep *Endpoint) peerAddress() *proto.WorkerAddress {
	if ep.peer != nil {
		return ep.peer.address
	}
	if own, _, err := proto.ParseAddress(ep.w.address, proto.FormWorker); err == nil {
		return &own // as peers see it, with the numbers rounded
	}
	return &ep.w.described
}

// reasons tells why the endpoint has its lanes. An endpoint is too small to keep
// the scores of all candidates, so the selection runs again on the same input: the
// peer's address, all of it or what is left after a doubt. Some of that may have
// changed, or what can be reached. The digest of the reasons, which the endpoint does
// keep, shows whether these are those of the time when it was made; others are not
// passed off as them.
func (ep *Endpoint) reasons(addr *proto.WorkerAddress) *proto.LaneTrace {
	doubted := addr.Clone()
	ep.w.leaveMachine(doubted)
	for _, a := range []*proto.WorkerAddress{addr, doubted} {
		if _, trace, _ := ep.w.selectLanes(a, ep.errMode, ep.refused); trace.Digest() == ep.why {
			return &trace
		}
	}
	return nil
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
	if e.Trace == nil {
		b.WriteString("why these lanes cannot be told any more: the peer's address or what can be reached has changed\n")
	}
	for i := range e.Protocols {
		b.WriteString(e.Protocols[i].String())
	}
	for _, u := range e.Unused {
		fmt.Fprintf(&b, "not used: %s\n", u)
	}
	return b.String()
}
