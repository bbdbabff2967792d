package self

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestConformance(t *testing.T) {
	ucttest.Run(t, ucttest.Fixture{Component: component{}, Loopback: true})
}
