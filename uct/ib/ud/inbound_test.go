//go:build linux

package ud

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestLocate checks that packets are accepted if their destination is an address of the port,
// whatever bytes precede an IPv4 header.
func TestLocate(t *testing.T) {
	v6 := [16]byte{0xfe, 0x80, 15: 1}
	other := [16]byte{0xfe, 0x80, 15: 2}
	v4 := mapped([4]byte{10, 9, 0, 1})
	i := &iface{gids: gidTable{check: true, own: map[[16]byte]struct{}{v6: {}, v4: {}}}}
	ip6 := func(src, dst [16]byte) []byte {
		b := make([]byte, 48)
		b[0] = 0x6f
		copy(b[8:], src[:])
		copy(b[24:], dst[:])
		return b
	}
	ip4 := func(first byte, src, dst byte) []byte {
		b := make([]byte, 48)
		for k := range b[:20] {
			b[k] = first
		}
		b[20] = 0x45
		copy(b[32:], []byte{10, 9, 0, src, 10, 9, 0, dst})
		return b
	}
	for name, tc := range map[string]struct {
		b    []byte
		ours bool
		from [16]byte
	}{
		"IPv6":                          {ip6(other, v6), true, other},
		"IPv6, to another":              {ip6(v6, other), false, v6},
		"IPv6, to none":                 {ip6(v6, [16]byte{}), false, v6},
		"IPv4 behind zeros":             {ip4(0, 2, 1), true, mapped([4]byte{10, 9, 0, 2})},
		"IPv4 behind what was there":    {ip4(noVersion, 2, 1), true, mapped([4]byte{10, 9, 0, 2})},
		"IPv4, to another":              {ip4(0, 1, 2), false, v4},
		"IPv4, to another with ours in": {ip4(0x5f, 1, 3), false, v4},
	} {
		for range 2 { // the second time after locate has changed the buffer
			wc := verbs.WC{SrcQPN: 0x17, Flags: verbs.WCGRH}
			if got := i.locate(tc.b, &wc); got != tc.ours {
				t.Errorf("%s: ours %v, want %v", name, got, tc.ours)
			}
			if f := i.inbound.from; !f.Seen || f.GID != tc.from || f.QPN != 0x17 {
				t.Errorf("%s: from %x, want %x", name, f.GID, tc.from)
			}
		}
	}
	if !i.locate(make([]byte, 48), &verbs.WC{}) || i.inbound.from.Seen {
		t.Error("without a header something was found in it")
	}
	i.gids.check = false
	if !i.locate(ip6(v6, other), &verbs.WC{Flags: verbs.WCGRH}) || i.inbound.from.Seen {
		t.Error("nobody is to look, and somebody does")
	}
}
