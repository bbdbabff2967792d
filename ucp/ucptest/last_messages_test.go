//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestLastWords checks that what a peer has sent before it closed its worker arrives, whichever of
// its connections ends first. The peer sends and receives on different connections if its second
// endpoint is used first, and always with TLS.
func TestLastWords(t *testing.T) {
	for _, name := range []string{"tcp", "tls"} {
		t.Run(name, func(t *testing.T) {
			const n, size = 300, 4096
			r := newRig(t, byName(t, name))
			a, b := r.open(), r.open()
			a.connect(b)
			ep := a.connect(b)
			opens := r.started(ep.TagSendSync(1, nil, nil))
			b.take(1, ucp.FullMask, 0)
			r.must(opens, nil)
			for range n {
				req, err := ep.TagSend(2, make([]byte, size), nil)
				if err != nil {
					t.Fatal(err)
				}
				for !req.Done() { // b does not progress
					a.Progress()
				}
				req.Free()
			}
			r.sides = r.sides[1:]
			a.close()
			for k := range n {
				req, err := b.TagRecv(2, ucp.FullMask, make([]byte, size), nil)
				if err != nil {
					t.Fatal(err)
				}
				if !r.eventually(req.Done) {
					t.Fatalf("%d of %d messages have arrived", k, n)
				}
				req.Free()
			}
		})
	}
}
