//go:build linux

package cm

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestConformance(t *testing.T) {
	for name, vars := range map[string][]string{
		"defaults":         nil,
		"inet6":            nil,
		"all the settings": {"SOURCE_ADDRESS", "127.0.0.1", "TIMEOUT", "inf", "RESERVED_QPN", "n", "REUSEADDR", "y", "FAILURE", "debug"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRig().fixture(t, vars...)
			if name == "inet6" {
				f.Addr = loopback6
			}
			ucttest.RunConnManager(t, *f)
		})
	}
}
