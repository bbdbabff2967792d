package tcp

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestConformance(t *testing.T) {
	ucttest.Run(t, ucttest.Fixture{Component: component{}, Transport: "tcp", Device: "lo"})
}
