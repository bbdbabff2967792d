//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
)

// TestDeviceDemo runs the program over the machine's RDMA device; the long form (make
// test-rxe-long) uses all devices. Each soft-RoCE device takes half a minute.
func TestDeviceDemo(t *testing.T) {
	device := rdmatest.Device(t)
	found, err := paths()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var want []path
	for _, p := range found {
		if _, on, is := strings.Cut(p.name, "_verbs/"); is && (os.Getenv("RXE_LONG") != "" || strings.HasPrefix(on, device)) {
			names, want = append(names, p.name), append(want, p)
		}
	}
	if len(want) == 0 {
		t.Fatal("no RDMA devices")
	}
	demonstrate(t, want, names...)
}
