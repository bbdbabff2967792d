package proto

import (
	"strings"
	"testing"
)

func TestTransportID(t *testing.T) {
	for id, name := range transportNames {
		if got := TransportIDOf(name); got != id {
			t.Errorf("%s: %#04x, want %#04x", name, uint16(got), uint16(id))
		}
		if id.String() != name {
			t.Errorf("%#04x is %q, want %q", uint16(id), id, name)
		}
	}
	if s := TransportID(0).String(); !strings.Contains(s, "0x0000") {
		t.Errorf("unknown transport prints %q", s)
	}
}
