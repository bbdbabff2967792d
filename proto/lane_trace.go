package proto

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// LaneTrace records how the lanes of an endpoint were chosen.
type LaneTrace struct {
	Steps []LaneStep
}

// LaneStep is the search for one lane.
type LaneStep struct {
	Type       LaneType
	Title      string
	Candidates []LaneCandidate
	Chosen     int    // index in Candidates, -1 if there was none
	Outcome    string // why no candidate was chosen, or why the chosen one did not become a lane
}

// LaneCandidate is one local resource, paired with an entry of the peer's address if it was
// compared with one.
type LaneCandidate struct {
	Local    int // index in LaneInput.Local; -1 for an entry that was rejected for all resources
	Name     string
	Remote   int // index of the address entry; -1 for a resource that was rejected for all entries
	Peer     TransportID
	Score    float64
	Tiebreak float64 // bandwidth in bytes per second, 0 if the search does not compare it
	Priority int
	Rejected string // why the candidate was rejected; empty if it has a score
}

var traceSeed = maphash.MakeSeed()

// Digest returns a hash of the trace: within one process, traces with the same content for
// the same candidates have the same digest, and different traces have different digests,
// except for hash collisions.
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

// String prints each search with its candidates. For nil it returns an empty string.
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
