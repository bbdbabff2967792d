package proto

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// LaneTrace tells how the lanes of an endpoint came about.
type LaneTrace struct {
	Steps []LaneStep
}

// LaneStep is the search for one lane.
type LaneStep struct {
	Type       LaneType
	Title      string
	Candidates []LaneCandidate
	Chosen     int    // index in Candidates, -1 if there was none
	Outcome    string // why nothing came of it, or what became of the choice
}

// LaneCandidate is one of our resources, with an entry of the peer's address
// where it came to that.
type LaneCandidate struct {
	Local    int // -1: an entry of the address that was left out for all
	Name     string
	Remote   int // -1: the resource was left out before
	Peer     TransportID
	Score    float64
	Tiebreak float64 // bandwidth in bytes per second, where it was asked for
	Priority int
	Rejected string // why it was left out; empty for candidates with a score
}

var traceSeed = maphash.MakeSeed()

// Digest is the same for two traces, of one process, that say the same of the same
// candidates. Different ones have different digests but for an accident that does
// not happen.
func (t *LaneTrace) Digest() uint64 {
	var h maphash.Hash
	h.SetSeed(traceSeed)
	for i := range t.Steps {
		s := &t.Steps[i]
		maphash.WriteComparable(&h, struct {
			Type           LaneType
			Title, Outcome string
			Candidates     int
			Chosen         int
		}{s.Type, s.Title, s.Outcome, len(s.Candidates), s.Chosen})
		for k := range s.Candidates {
			maphash.WriteComparable(&h, s.Candidates[k])
		}
	}
	return h.Sum64()
}

// String prints each search with its candidates. There is nothing to print of nil.
func (t *LaneTrace) String() string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	for i := range t.Steps {
		s := &t.Steps[i]
		fmt.Fprintf(&b, "%s (%v):", s.Title, s.Type)
		if s.Outcome != "" {
			b.WriteString(" " + s.Outcome)
		}
		b.WriteByte('\n')
		for j := range s.Candidates {
			fmt.Fprintf(&b, "  %s\n", s.Candidates[j].text(j == s.Chosen))
		}
	}
	return b.String()
}

func (c *LaneCandidate) text(chosen bool) string {
	name := c.Name
	switch {
	case c.Local < 0:
		name = fmt.Sprintf("addr[%d] %v", c.Remote, c.Peer)
	case c.Remote >= 0:
		name = fmt.Sprintf("%s -> addr[%d] %v", c.Name, c.Remote, c.Peer)
	}
	if c.Rejected != "" {
		return name + ": " + c.Rejected
	}
	s := fmt.Sprintf("%s: score %.4g priority %d", name, c.Score, c.Priority)
	if c.Tiebreak > 0 {
		s += fmt.Sprintf(" bandwidth %.2f MB/s", c.Tiebreak/(1<<20))
	}
	if chosen {
		s += ", chosen"
	}
	return s
}
