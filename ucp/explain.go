package ucp

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
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
	Chosen     int    // index of the chosen one in Candidates, -1 if there is none
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
	Rejected  string // why the candidate was rejected; empty for candidates with a score
}

// ProtocolTable says which protocol an operation uses for which message sizes.
type ProtocolTable struct {
	Title  string
	Ranges []ProtocolRange // in ascending order, cover all lengths without gaps
	Text   string          // the whole table as text
}

// ProtocolRange is one range of a table: the chosen protocol and its alternatives.
type ProtocolRange struct {
	Min, Max int // bytes
	Protocol string
	Config   string  // the lanes that the protocol uses, and their shares of the data
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

// reasons returns the record of the selection of the endpoint's lanes, toward the address addr. An
// endpoint does not keep the scores of all candidates, so the selection runs again on the same
// input. Since the endpoint was made, the set of reachable entries may have changed. The endpoint's
// destination keeps a digest of the original record; if the digest of the new record differs,
// reasons returns nil.
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
		b.WriteString("the selection of these lanes cannot be explained any more: the peer's address or the reachable entries have changed\n")
	}
	for i := range e.Protocols {
		b.WriteString(e.Protocols[i].Text)
	}
	for _, u := range e.Unused {
		fmt.Fprintf(&b, "not used: %s\n", u)
	}
	return b.String()
}

// printTables prints the decision tables that UCX_PROTO_INFO selects to the log, and writes them to
// files if UCX_PROTO_INFO_DIR is set.
func (w *Worker) printTables(c *epConfig, tables []proto.TableInfo) {
	set := &w.ctx.settings
	owner := w.tableOwner(c)
	for i := range tables {
		t := &tables[i]
		if !set.ProtoInfo.fits(t.Title) {
			continue
		}
		for _, l := range t.Lines(owner) {
			w.ctx.log.Print(l)
		}
		if dir := set.ProtoInfoDir; dir != "" {
			if err := writeTable(log.ExpandName(dir), owner, t); err != nil {
				w.ctx.log.Diag("protocol information not written", zap.String("UCX_PROTO_INFO_DIR", dir), zap.Error(err))
			}
		}
	}
}

// tableOwner returns the name of an endpoint configuration in the titles of its tables.
func (w *Worker) tableOwner(c *epConfig) string { return w.name + " " + c.costs.AM.Name }

// writeTable writes a table with its estimates and reasons into a file of its own.
func writeTable(dir, owner string, t *proto.TableInfo) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	name := plainName(owner) + "_" + plainName(t.Title) + ".txt"
	return os.WriteFile(filepath.Join(dir, name), []byte(t.String()), 0o640)
}

// plainName removes *, ( and ) from s, and replaces other characters that a file name should not
// have by _.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			return r
		case r == '*' || r == '(' || r == ')':
			return -1
		}
		return '_'
	}, s)
}

// usage counts how often each range of the decision tables was used, for UCX_PROTO_INFO=used.
type usage struct {
	byKey map[any]*usedTable
	list  []*usedTable // used tables, in the order of their first use
}

// usedTable is a table that was used.
type usedTable struct {
	owner  string
	info   proto.TableInfo
	counts []uint64 // number of uses, by range of the table
}

// newUsage returns the counters of a worker, nil unless UCX_PROTO_INFO=used.
func newUsage(s *settings) *usage {
	if s.ProtoInfo.mode != protoInfoUsed {
		return nil
	}
	return &usage{byKey: make(map[any]*usedTable)}
}

// count counts the use of a table for n bytes. key identifies the table, and explain describes the
// table at its first use.
func (u *usage) count(w *Worker, c *epConfig, key any, n int, explain func() proto.TableInfo) {
	t := u.byKey[key]
	if t == nil {
		t = &usedTable{owner: w.tableOwner(c), info: explain()}
		t.counts = make([]uint64, len(t.info.Ranges))
		u.byKey[key], u.list = t, append(u.list, t)
	}
	for i := range t.info.Ranges {
		if n <= t.info.Ranges[i].Max {
			t.counts[i]++
			return
		}
	}
}

// print prints the tables with the counts to the log.
func (u *usage) print(to *log.Logger) {
	if u == nil {
		return
	}
	for _, t := range u.list {
		for _, l := range t.info.UsedLines(t.owner, t.counts) {
			to.Print(l)
		}
	}
}

// countMessage counts the choice of a protocol for a message of n bytes.
func (ls *laneSelection) countMessage(r *Request, tables *proto.MessageTables, class proto.DataClass, n int) {
	if u := r.w.usage; u != nil {
		u.count(r.w, r.ep.cfg, tables.Table(class, r.mode), n, func() proto.TableInfo { return tables.Explain(class, r.mode) })
	}
}

// countAccess counts the choice of a protocol for a put or get.
func (ls *laneSelection) countAccess(r *Request, t *proto.RMATables, table *proto.Table, class proto.DataClass) {
	if u := r.w.usage; u != nil {
		u.count(r.w, r.ep.cfg, table, r.data.Length, func() proto.TableInfo {
			if table == t.Put(class) {
				return t.Explain(class)[proto.RMATablePut]
			}
			return t.Explain(class)[proto.RMATableGet]
		})
	}
}

// countAtomic counts the choice of a protocol for an atomic operation on size bytes, 4 or 8.
func (ls *laneSelection) countAtomic(r *Request, t *proto.RMATables, size int) {
	if u := r.w.usage; u != nil {
		type atomics struct {
			tables *proto.RMATables
			size   int
		}
		u.count(r.w, r.ep.cfg, atomics{t, size}, size, func() proto.TableInfo {
			if size == 4 {
				return t.Explain(proto.DataContig)[proto.RMATableAtomic32]
			}
			return t.Explain(proto.DataContig)[proto.RMATableAtomic64]
		})
	}
}

// countAsk counts the choice of a protocol by which the receiver answers a rendezvous offer of n
// bytes.
func (ls *laneSelection) countAsk(r *Request, class proto.DataClass, offer proto.Offer, n int) {
	if u := r.w.usage; u != nil {
		t := r.ep.cfg.rndv
		u.count(r.w, r.ep.cfg, t.Ask(class, offer), n, func() proto.TableInfo { return t.ExplainAsk(class, offer) })
	}
}

// countAnswer counts the choice of a protocol by which the sender delivers n bytes that the
// receiver of a rendezvous has requested.
func (ls *laneSelection) countAnswer(r *Request, class proto.DataClass, address bool, n int) {
	if u := r.w.usage; u != nil {
		t := r.ep.cfg.rndv
		u.count(r.w, r.ep.cfg, t.Answer(class, address), n, func() proto.TableInfo { return t.ExplainAnswer(class, address) })
	}
}

// protoInfo is the value of UCX_PROTO_INFO: which decision tables are printed to the log.
type protoInfo struct {
	mode    protoInfoMode
	pattern string // the pattern of protoInfoPattern, in lower case
}

type protoInfoMode uint8

const (
	protoInfoOff     protoInfoMode = iota
	protoInfoAll                   // each table when it is made
	protoInfoAuto                  // as protoInfoAll if the log prints level debug
	protoInfoUsed                  // the tables that were used, when the worker is closed
	protoInfoPattern               // each table whose title matches a pattern, when it is made
)

// ParseConfig implements config.Value.
func (v *protoInfo) ParseConfig(s string) error {
	switch lower := strings.ToLower(strings.TrimSpace(s)); lower {
	case "y", "yes", "on", "1":
		*v = protoInfo{mode: protoInfoAll}
	case "n", "no", "off", "0":
		*v = protoInfo{mode: protoInfoOff}
	case "auto":
		*v = protoInfo{mode: protoInfoAuto}
	case "used":
		*v = protoInfo{mode: protoInfoUsed}
	case "":
		return fmt.Errorf("the value is empty: %w", ucs.ErrInvalidParam)
	default:
		if _, err := path.Match(lower, ""); err != nil {
			return fmt.Errorf("pattern: %w: %w", err, ucs.ErrInvalidParam)
		}
		*v = protoInfo{mode: protoInfoPattern, pattern: lower}
	}
	return nil
}

// String implements config.Value.
func (v protoInfo) String() string {
	switch v.mode {
	case protoInfoAll:
		return "y"
	case protoInfoAuto:
		return "auto"
	case protoInfoUsed:
		return "used"
	case protoInfoPattern:
		return v.pattern
	}
	return "n"
}

// ConfigSyntax describes the values for error messages and listings.
func (protoInfo) ConfigSyntax() string {
	return `y, n, "auto", "used", or a pattern with *, ? and [a-z]`
}

// prints reports whether a table is printed when it is made, provided that fits accepts its title.
func (v protoInfo) prints(to *log.Logger) bool {
	switch v.mode {
	case protoInfoAll, protoInfoPattern:
		return true
	case protoInfoAuto:
		return to.Enabled(log.LevelDebug)
	}
	return false
}

// fits reports whether the pattern, if there is one, matches the title of a table.
func (v protoInfo) fits(title string) bool {
	return v.mode != protoInfoPattern || globAny(v.pattern, strings.ToLower(title))
}

var _ config.Syntaxer = protoInfo{}
