package proto

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// maxRanges bounds the ranges of a table: nine lines, of which three end at a
// length and four start at one, and three user thresholds that each may cut a
// range in two. choice.table cuts off what is too much.
const maxRanges = 16

// Table maps message lengths to protocols. It is a plain value of fixed size; the zero
// Table gives ProtoNone for every length.
type Table struct {
	upTo  [maxRanges]int // last length of each range, ascending; the last in use is MaxInt
	proto [maxRanges]Protocol
}

// FirstRendezvous returns the shortest length that is sent by rendezvous, math.MaxInt if
// none is.
func (t *Table) FirstRendezvous() int {
	from := 0
	for i := range t.upTo {
		if t.proto[i].Rendezvous() {
			return from
		}
		if t.upTo[i] == math.MaxInt {
			break
		}
		from = t.upTo[i] + 1
	}
	return math.MaxInt
}

// Lookup returns the protocol for a message of n bytes, n ≥ 0. It is small
// enough to be inlined and does not allocate.
func (t *Table) Lookup(n int) Protocol {
	for i := range maxRanges - 1 {
		if n <= t.upTo[i] {
			return t.proto[i]
		}
	}
	return t.proto[maxRanges-1]
}

// MaxShort returns MaxFirst of the short eager protocol.
func (t *Table) MaxShort() int { return t.MaxFirst(ProtoEagerShort) }

// MaxFirst returns the longest length of a protocol, provided that all shorter messages use
// it too; -1 if there is none.
func (t *Table) MaxFirst(p Protocol) int {
	if t.proto[0] != p {
		return -1
	}
	return t.upTo[0]
}

// MaxCopied returns the longest length that is sent in one packet by copying, provided that
// all shorter messages are; -1 if there is none.
func (t *Table) MaxCopied() int {
	most := -1
	for i := range t.upTo {
		if t.proto[i] != ProtoEagerShort && t.proto[i] != ProtoEagerBcopy {
			break
		}
		most = t.upTo[i]
	}
	return most
}

// TableInfo is a table with its reasons.
type TableInfo struct {
	Title  string
	Ranges []RangeInfo // cover 0..MaxInt without gaps
}

// RangeInfo is one range of a table: the chosen protocol and its alternatives.
type RangeInfo struct {
	Min, Max int
	Proto    Protocol
	Config   string  // the lanes and their shares
	TimeMin  Seconds // estimated for Min bytes
	TimeMax  Seconds // for Max bytes; infinite for the last range
	Forced   string  // the setting that decided; empty if the estimate did
	Others   []RejectedProto
}

// RejectedProto is a protocol that was not chosen for a range.
type RejectedProto struct {
	Proto  Protocol
	Time   Seconds // estimated for the range's Min bytes; 0 if the protocol is not possible there
	Reason string
}

// sizedTime is the estimate for n bytes.
func sizedTime(l uct.Linear, n int) Seconds {
	if n == math.MaxInt {
		return Seconds(math.Inf(1))
	}
	return Seconds(l.At(float64(n)))
}
