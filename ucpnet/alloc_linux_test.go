package ucpnet

import (
	"testing"

	"github.com/ucx-go/ucx/internal/race"
)

// TestAllocations checks that small messages allocate nothing.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("requests serve once with the race detector")
	}
	overAll(t, func(t *testing.T, a, b *Conn) {
		p := make([]byte, 64)
		turn := func() {
			if _, err := a.Write(p); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Read(p); err != nil {
				t.Fatal(err)
			}
		}
		for range 1000 {
			turn()
		}
		// Notes allocate, but there is only one in some hundred messages, which the average rounds
		// to zero.
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("%v allocations for a message", n)
		}
	})
}
