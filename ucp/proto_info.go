package ucp

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
)

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
	list  []*usedTable // in the order of their first use
}

// usedTable is a table that was used.
type usedTable struct {
	owner  string
	info   proto.TableInfo
	counts []uint64 // by range
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
		u.count(r.w, r.ep.cfg, table, r.data.length, func() proto.TableInfo {
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
