package ucp

import (
	"testing"
	"unsafe"
)

// TestSizes checks the sizes of endpoints, requests and other objects: memory grows with operations
// in flight, not with endpoints. Raise a limit only for something that every endpoint or request
// needs.
func TestSizes(t *testing.T) {
	for _, s := range []struct {
		name       string
		size, most uintptr
	}{
		{"an endpoint with one lane", unsafe.Sizeof(Endpoint{}) + unsafe.Sizeof(lane{}), 280},
		{"a connection's account", unsafe.Sizeof(source{}), 224},
		{"what an endpoint is charged to", unsafe.Sizeof(endpointCharge{}), 104},
		{"a request", unsafe.Sizeof(Request{}), 512},
		{"a remote key with one lane", unsafe.Sizeof(Rkey{}) + unsafe.Sizeof(rkeyLane{}), 320},
		{"an endpoint's one-sided operations", unsafe.Sizeof(rmaFlow{}), 56},
		{"an unexpected message", unsafe.Sizeof(TagMessage{}), 288},
		{"an endpoint's stream", unsafe.Sizeof(stream{}), 176},
		{"bytes of a stream", unsafe.Sizeof(chunk{}), 176},
		{"a message in fragments", unsafe.Sizeof(assembly{}), assemblySize},
	} {
		t.Logf("%s: %d bytes", s.name, s.size)
		if s.size > s.most {
			t.Errorf("%s takes %d bytes, at most %d are allowed", s.name, s.size, s.most)
		}
	}
	if requestSize != int(unsafe.Sizeof(Request{})) {
		t.Errorf("Context.Query reports requests of %d bytes, they have %d", requestSize, unsafe.Sizeof(Request{}))
	}
}
