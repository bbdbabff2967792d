//go:build linux

package interop

import (
	"slices"
	"testing"
)

// TestTLSBeside: C peers work as usual when the Go side also offers TLS connections, whose entry in
// its address they do not know.
func TestTLSBeside(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	ours.env = append(slices.Clone(ours.env), "GOPEER_TLS=y")
	where := newPlace()
	defer where.close()
	over := network(where.devices()[0])
	over.name, over.tls = "tcp and tls", "tcp,tls"
	for _, theirs := range c {
		t.Run(theirs.name, func(t *testing.T) {
			m := newMatrix(ours.name + " with TLS and " + theirs.name)
			r := runner{t: t, where: where, ours: ours, theirs: theirs, setting: settings[0], route: over, matrix: m}
			r.run([]int{8, 16384, 1 << 20})
		})
	}
}
