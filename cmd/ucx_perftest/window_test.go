//go:build linux

package main

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestWindow fills the ring twice.
func TestWindow(t *testing.T) {
	w := newWindow(3)
	var in, out []*ucp.Request
	for range 7 {
		w.add(nil) // completed in the call
		req := new(ucp.Request)
		w.add(req)
		in = append(in, req)
		if w.full() {
			out = append(out, w.take())
		}
	}
	for w.count > 0 {
		out = append(out, w.take())
	}
	if len(out) != len(in) {
		t.Fatalf("%d requests came out, %d went in", len(out), len(in))
	}
	for i := range in {
		if in[i] != out[i] {
			t.Errorf("request %d came out of order", i)
		}
	}
}
