//go:build linux

package ucptest

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
)

// TestExplanationJSON checks that an explanation can be converted to JSON and back, over every
// transport, before and after wireup, with and without a key.
func TestExplanationJSON(t *testing.T) {
	needtest.Goroutines(t)
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			r := newRig(t, tr)
			a, b := r.oneSidedPair()
			ep := a.connect(b)
			check := func() {
				t.Helper()
				e := ep.Explain()
				text, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				var back ucp.Explanation
				if err := json.Unmarshal(text, &back); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				if d := cmp.Diff(e, back); d != "" {
					t.Errorf("read back (-explained +read):\n%s", d)
				}
				if len(e.Protocols) == 0 || len(e.Lanes) == 0 {
					t.Error("nothing is explained")
				}
			}
			check()
			w := r.unpack(ep, b.expose(make([]byte, 100), 0))
			check()
			if err := ep.WriteInfo(io.Discard); err != nil || w.key.String() == "" {
				t.Error(err)
			}
			r.settle()
			check()
		})
	}
}
