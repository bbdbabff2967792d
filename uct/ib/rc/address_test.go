//go:build linux

package rc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

// The endpoint addresses of 4 bytes are those of C UCX on soft-RoCE (1.13.1 and 1.22.0, wireup
// messages of rc_verbs); the others follow uct_rc_verbs_ep_get_address.
var epAddresses = []struct {
	hex  string
	want epAddress
}{
	{"00240000", epAddress{qpn: 0x24}},
	{"00ffffff", epAddress{qpn: 0xffffff}},
	{"0124000003", epAddress{qpn: 0x24, offset: 24}},
	{"01563412ff1234", epAddress{qpn: 0x123456, offset: 8 * 0xff}},
	{"03563412ff1234", epAddress{qpn: 0x123456}},
	{"fc240000", epAddress{qpn: 0x24}}, // flags of future releases
}

func TestEPAddresses(t *testing.T) {
	for _, c := range epAddresses {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		a, err := parseEPAddress(b)
		if err != nil || a != c.want {
			t.Errorf("%s: %+v, %v", c.hex, a, err)
		}
	}
	if b := (&epAddress{qpn: 0x24}).append(nil); !bytes.Equal(b, []byte{0, 0x24, 0, 0}) {
		t.Errorf("packed as %x", b)
	}
	for _, h := range []string{
		"", "00", "002400", "0024000003", "00240000031234", "01240000", "012400000312", "0124000003123456", "00000000", "0100000003", "0124000003120000",
	} {
		b, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := parseEPAddress(b); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%s: %+v, %v", h, a, err)
		}
	}
}

func FuzzEPAddress(f *testing.F) {
	for _, c := range epAddresses {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		a, err := parseEPAddress(b)
		if err != nil {
			if !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		if a.qpn == 0 || a.qpn >= 1<<24 || a.offset > 8*0xff {
			t.Fatalf("%x: %+v", b, a)
		}
		again, err := parseEPAddress(a.append(nil))
		if err != nil || again.qpn != a.qpn {
			t.Fatalf("%x: %+v, then %+v, %v", b, a, again, err)
		}
	})
}
