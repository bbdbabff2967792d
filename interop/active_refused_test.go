//go:build linux

package interop

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestActiveMessageRefused: a C peer sends active messages to a Go worker without that feature. A
// small one is dropped, as C drops those without a handler. The send of a large one, which would be
// fetched, fails. Neither affects the connection.
func TestActiveMessageRefused(t *testing.T) {
	c := buildC(t)
	deaf := buildGo(t)
	deaf.env = append(deaf.env, "PEER_NO_AM=y")
	where := newPlace()
	defer where.close()
	for _, theirs := range c {
		for _, over := range []route{lo, posix, sysv, posixCMA} {
			t.Run(theirs.name+"/"+over.name, func(t *testing.T) {
				p, err := newPair(where, deaf, theirs, setting{}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer p.report(t)
				tagged := expected("contig", "contig", "sync")
				if err := tagged(p.theirs, p.ours, &p.msgs, 100); err != nil {
					t.Fatal(err)
				}
				for _, m := range []struct {
					size int
					want ucs.Status
				}{{8, ucs.OK}, {4 << 20, ucs.ErrUnsupported}, {0, ucs.OK}} {
					n := p.theirs.request()
					if err := p.theirs.do("am", n, ep, 3, 0, m.size, 1, "contig", "plain"); err != nil {
						t.Fatal(err)
					}
					if got, err := p.theirs.wait(n, 0); err != nil || got.status != m.want {
						t.Errorf("%d bytes: %v, %v, want %v", m.size, got.status, err, m.want)
					}
				}
				if err := tagged(p.theirs, p.ours, &p.msgs, 1<<20); err != nil {
					t.Error(err)
				}
				if err := tagged(p.ours, p.theirs, &p.msgs, 1<<20); err != nil {
					t.Error(err)
				}
				if err := p.close("none"); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
