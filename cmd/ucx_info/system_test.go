package main

import (
	"path/filepath"
	"testing"

	"github.com/ucx-go/ucx/internal/topo"
)

func TestSystem(t *testing.T) {
	tests := []struct{ tree, vendor, model, product string }{
		{"intel", "Intel", "Intel(R) Xeon(R) Processor", "ProLiant DL380 Gen10"},
		{"arm", "Nvidia", "ARM part 0xd0c", topo.Unknown},
		{"absent", topo.Unknown, topo.Unknown, topo.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.tree, func(t *testing.T) {
			s := system(filepath.Join("testdata", tt.tree))
			if s.Vendor != tt.vendor || s.Model != tt.model || s.Product != tt.product {
				t.Errorf("got %q, %q, %q, want %q, %q, %q", s.Vendor, s.Model, s.Product, tt.vendor, tt.model, tt.product)
			}
			if s.TimerHz <= 0 || s.Accuracy <= 0 || s.Accuracy > 1 {
				t.Errorf("timer at %v Hz, accuracy %v", s.TimerHz, s.Accuracy)
			}
		})
	}
}
