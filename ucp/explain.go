package ucp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
)

// Explanation lists the lanes and protocols of an endpoint, with the reasons for the
// choice.
type Explanation struct {
	Endpoint string
	Peer     uint64 // the peer's worker
	Release  int    // minor release the peer announces, 0 for none

	Lanes []string // one line per lane, in the layout of ucx_info -e

	// Searches are the searches that chose the lanes: every candidate, with its score or
	// the reason why it was rejected. They are empty if the record is no longer available.
	Searches []LaneSearch

	// Protocols are the tables that say which protocol is used from which size: for tagged
	// sends of contiguous memory plain, synchronous, with OpFastComplete and with
	// OpMultiSend; for streams; and for a rendezvous. If both ends can map each other's
	// memory there are also tables for memory of MemMapAllocate.
	Protocols []ProtocolTable

	// Unused lists the transports that are not used at all, with the reasons.
	Unused []string
}

// LaneSearch is the search for one lane.
type LaneSearch struct {
	Purpose    string
	Title      string
	Candidates []LaneCandidate
	Chosen     int    // index in Candidates, -1 if there was none
	Outcome    string // why no candidate was chosen, or what happened to the choice
	Text       string // the whole search as text
}

// LaneCandidate is a local transport on a device, paired with an entry of the peer's
// address if it was compared with one.
type LaneCandidate struct {
	Name      string
	Remote    int // entry of the peer's address, -1 if the transport was rejected before
	Score     float64
	Bandwidth float64 // bytes per second, where the search uses it
	Priority  int
	Rejected  string // why it was rejected; empty for candidates with a score
}

// ProtocolTable says which protocol an operation uses for which message sizes.
type ProtocolTable struct {
	Title  string
	Ranges []ProtocolRange // cover all lengths without gaps
	Text   string          // the whole table as text
}

// ProtocolRange is one range of a table: the chosen protocol and its alternatives.
type ProtocolRange struct {
	Min, Max int // bytes
	Protocol string
	Config   string  // the lanes and their shares
	TimeMin  float64 // estimated seconds for Min bytes
	TimeMax  float64 // estimated seconds for Max bytes; 0 in the last range, which has no end
	Forced   string  // the setting that decided; empty if the estimate did
	Others   []RejectedProtocol
}

// RejectedProtocol is a protocol that was not chosen for a range.
type RejectedProtocol struct {
	Protocol string
	Time     float64 // estimated seconds for the range's Min bytes; 0 if the protocol is not possible there
	Reason   string
}

// Explain returns the lanes and protocols that the endpoint uses, the size from which each
// protocol is used, and why the others were not chosen.
func (ep *Endpoint) Explain() Explanation {
	ep.w.owner.acquireRead()
	defer ep.w.owner.releaseRead()
	return ep.w.selection.explain(ep)
}

func (ls *laneSelection) explain(ep *Endpoint) Explanation {
	w := ep.w
	e := Explanation{Endpoint: ep.describe()}
	addr := ls.peerAddress(ep)
	e.Peer, e.Release = addr.UUID, addr.Release
	if len(ep.lanes) > 0 {
		e.Lanes = ep.cfg.chosen.Lines()
	}
	if trace := ls.reasons(ep, addr); trace != nil {
		for i := range trace.Steps {
			e.Searches = append(e.Searches, laneSearch(&trace.Steps[i]))
		}
	}
	for _, t := range ep.cfg.explain(w, ep) {
		e.Protocols = append(e.Protocols, protocolTable(&t))
	}
	for _, s := range slices.Concat(w.unopened, w.ctx.skipped) {
		e.Unused = append(e.Unused, s.String())
	}
	return e
}

func laneSearch(s *proto.LaneStep) LaneSearch {
	t := proto.LaneTrace{Steps: []proto.LaneStep{*s}}
	l := LaneSearch{Purpose: s.Type.String(), Title: s.Title, Chosen: s.Chosen, Outcome: s.Outcome, Text: t.String()}
	for _, c := range s.Candidates {
		l.Candidates = append(l.Candidates, LaneCandidate{
			Name: c.Name, Remote: c.Remote, Score: c.Score, Bandwidth: c.Tiebreak, Priority: c.Priority, Rejected: c.Rejected,
		})
	}
	return l
}

func protocolTable(i *proto.TableInfo) ProtocolTable {
	t := ProtocolTable{Title: i.Title, Text: i.String()}
	for _, r := range i.Ranges {
		p := ProtocolRange{
			Min: r.Min, Max: r.Max, Protocol: r.Proto.String(), Config: r.Config,
			TimeMin: finite(r.TimeMin), TimeMax: finite(r.TimeMax), Forced: r.Forced,
		}
		for _, o := range r.Others {
			p.Others = append(p.Others, RejectedProtocol{Protocol: o.Proto.String(), Time: finite(o.Time), Reason: o.Reason})
		}
		t.Ranges = append(t.Ranges, p)
	}
	return t
}

// finite returns the estimate t in seconds, 0 if t is infinite.
func finite(t proto.Seconds) float64 {
	if math.IsInf(float64(t), 0) {
		return 0
	}
	return float64(t)
}

// peerAddress returns the address from which the endpoint's lanes were selected: the peer's, or this
// worker's own for an endpoint without a known peer.
func (ls *laneSelection) peerAddress(ep *Endpoint) *proto.WorkerAddress {
	if ep.peer != nil && ep.dest != nil {
		return ep.dest.address
	}
	if own, _, err := proto.ParseAddress(ep.w.own.address, proto.FormWorker); err == nil {
		return &own // as peers read the packed address, with rounded numbers
	}
	return &ep.w.own.described
}

// reasons returns the record of the selection of the endpoint's lanes. An endpoint does not keep
// the scores of all candidates, so the selection runs again on the same input. What can be reached
// may have changed since the endpoint was made. The endpoint's destination keeps a digest of the
// original record; if the digest of the new record differs, reasons returns nil.
func (ls *laneSelection) reasons(ep *Endpoint, addr *proto.WorkerAddress) *proto.LaneTrace {
	if _, trace, _ := ep.w.selection.selectLanes(addr, ep.errMode, laneRules{refused: ep.refused(), cm: ep.conn() != nil, spare: ep.lanes}); trace.Digest() == ep.dest.reasons {
		return &trace
	}
	return nil
}

// String formats the explanation as text.
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
	if e.Lanes == nil && e.Protocols == nil {
		b.WriteString("not connected\n")
		return b.String()
	}
	for i := range e.Searches {
		b.WriteString(e.Searches[i].Text)
	}
	if e.Searches == nil {
		b.WriteString("why these lanes cannot be told any more: the peer's address or what can be reached has changed\n")
	}
	for i := range e.Protocols {
		b.WriteString(e.Protocols[i].Text)
	}
	for _, u := range e.Unused {
		fmt.Fprintf(&b, "not used: %s\n", u)
	}
	return b.String()
}
