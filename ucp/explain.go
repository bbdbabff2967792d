package ucp

import (
	"fmt"
	"io"
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
	// OpMultiSend; then those of a rendezvous.
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
	e.Protocols = ep.cfg.explain()
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

// WriteInfo prints the lanes and protocols of the endpoint in the layout of
// ucx_info -e.
func (ep *Endpoint) WriteInfo(w io.Writer) error {
	e := ep.Explain()
	ew := errWriter{w: w}
	ew.printf("#\n# UCP endpoint %s\n#\n", e.Endpoint)
	ew.printf("#               peer: uuid %#x\n", e.Peer)
	for _, l := range e.Lanes {
		ew.printf("#                 %s\n", l)
	}
	ew.printf("#\n")
	for i := range e.Protocols {
		for _, l := range e.Protocols[i].Lines(ep.w.name) {
			ew.printf("# %s\n", l)
		}
		ew.printf("#\n")
	}
	return ew.err
}

// WriteInfo prints the worker's name, its address and its interfaces, and those
// that could not be opened.
func (w *Worker) WriteInfo(out io.Writer) error {
	if err := w.packAddress(); err != nil {
		return err
	}
	ew := errWriter{w: out}
	ew.printf("#\n# UCP worker '%s'\n#\n", w.name)
	ew.printf("#                 address: %d bytes\n", len(w.address))
	for _, l := range strings.Split(w.described.String(), "\n") {
		ew.printf("#                 %s\n", strings.TrimSpace(l))
	}
	for _, s := range w.unopened {
		ew.printf("#                not used: %s\n", s)
	}
	ew.printf("#\n")
	return ew.err
}
