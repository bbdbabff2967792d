//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
)

// TestDeviceDemo runs the program over the RDMA devices of the machine.
func TestDeviceDemo(t *testing.T) {
	rdmatest.Device(t)
	found, err := paths()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var want []path
	for _, p := range found {
		if strings.Contains(p.name, "_verbs/") {
			names, want = append(names, p.name), append(want, p)
		}
	}
	if len(want) == 0 {
		t.Fatal("no RDMA devices")
	}
	demonstrate(t, want, names...)
}
