package proto

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEstimateGrows checks that a longer message never takes less time, whatever the transports and
// settings.
func TestEstimateGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		form := MessageForm{Only: 8, First: 24, Short: rapid.Bool().Draw(t, "short")}
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 1<<20), rapid.IntRange(0, math.MaxInt)), 2, 8).Draw(t, "sizes")
		slices.Sort(sizes)
		last := Seconds(0)
		for _, n := range sizes {
			got := EstimateMessage(in, form, n)
			if !(got >= last) {
				t.Fatalf("%d bytes take %v, fewer took %v", n, got, last)
			}
			last = got
		}
	})
}

// TestEstimate checks that the estimate agrees with the tables for empty messages, and with the
// bandwidth for long ones.
func TestEstimate(t *testing.T) {
	form := MessageForm{Only: 8, First: 24, Short: true}
	in := tcpInput()
	want := NewMessageTables(in, form).Explain(DataContig, 0).Ranges[0].TimeMin
	if got := EstimateMessage(in, form, 0); got != want || got <= 0 {
		t.Errorf("an empty message takes %v, the table says %v", got, want)
	}
	const n = 1 << 30
	wire := n / in.AM.Bandwidth
	if got := float64(EstimateMessage(in, form, n)); got < wire || got > 1.2*wire {
		t.Errorf("%d bytes take %v s, the wire alone %v", n, got, wire)
	}
	if got := EstimateMessage(&ProtoInput{}, form, n); got != 0 {
		t.Errorf("without any lane: %v", got)
	}
}
