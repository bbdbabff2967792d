//go:build linux

package ud_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// ways are the ways in which the transport can be set up.
var ways = []struct {
	name  string
	ports []verbstest.Port
	pairs []string
}{
	{"defaults", []verbstest.Port{{}}, nil},
}

func TestConformance(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			ucttest.Run(t, fixture(t, newRig(t, w.ports...), w.pairs...))
		})
	}
}
