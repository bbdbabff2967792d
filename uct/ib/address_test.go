//go:build linux

package ib

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The RoCE addresses are those of C UCX 1.13.1 and 1.22.0 on soft-RoCE (ucx_info -a, and wireup
// messages); the InfiniBand addresses follow uct_ib_address_pack.
var addresses = []struct {
	name, hex string
	want      Address
}{
	{"IPv4", "4800000000000000000000ffff0a090001",
		Address{Ethernet: true, Version: RoCEv2, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 13: 9, 15: 1}}},
	{"IPv6", "58fe80000000000000000000fffe000001",
		Address{Ethernet: true, Version: RoCEv2, IPv6: true, GID: verbs.GID{0: 0xfe, 1: 0x80, 11: 0xff, 12: 0xfe, 15: 1}}},
	{"MTU 1024", "4a00000000000000000000ffffc0a8000503",
		Address{Ethernet: true, Version: RoCEv2, MTU: verbs.MTU1024, GID: verbs.GID{10: 0xff, 11: 0xff, 12: 0xc0, 13: 0xa8, 15: 5}}},
	{"all of RoCE", "7f0102030405060708090a0b0c0d0e0f1002070180",
		Address{Ethernet: true, Version: RoCEAny, IPv6: true, MTU: verbs.MTU512, HasIndex: true, GIDIndex: 7, PKey: 0x8001,
			GID: verbs.GID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}},
	{"LID", "003412", Address{LID: 0x1234, GID: verbs.GID{0xfe, 0x80}}},
	{"site", "1034120007", Address{LID: 0x1234, GID: verbs.GID{0xfe, 0xc0, 7: 7}}},
	{"subnet and partition", "260100aabbccddeeff0011040110",
		Address{LID: 1, MTU: verbs.MTU2048, PKey: 0x1001, GID: verbs.GID{0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0, 0x11}}},
	{"global", "6001000102030405060708aabbccddeeff0011",
		Address{LID: 1, Global: true, GID: verbs.GID{0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0, 0x11, 1, 2, 3, 4, 5, 6, 7, 8}}},
}

func TestAddresses(t *testing.T) {
	for _, c := range addresses {
		b := unhex(t, c.hex)
		got, err := ParseAddress(b)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		if p := c.want.Append(nil); !bytes.Equal(p, b) {
			t.Errorf("%s is packed as %x", c.name, p)
		}
		for n := range b {
			if _, err := ParseAddress(b[:n]); !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Errorf("%s, %d bytes of it: %v", c.name, n, err)
			}
		}
		if _, err := ParseAddress(append(b, 0)); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%s with a byte more: %v", c.name, err)
		}
	}
}

func TestAddressesRefused(t *testing.T) {
	for name, h := range map[string]string{
		"empty":                   "",
		"version 4":               "8800000000000000000000ffff0a090001",
		"two subnets":             "30010000010000000000000001",
		"MTU 0":                   "4a00000000000000000000ffffc0a8000500",
		"MTU 6":                   "4a00000000000000000000ffffc0a8000506",
		"flag of nobody's":        "803412",
		"partition 0":             "0434120000",
		"partition 0 of Ethernet": "4c00000000000000000000ffff0a0900010000",
	} {
		if a, err := ParseAddress(unhex(t, h)); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// FuzzAddress checks that an address which is parsed and packed again parses to the same address.
func FuzzAddress(f *testing.F) {
	for _, c := range addresses {
		f.Add(unhex(f, c.hex))
	}
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		a, err := ParseAddress(b)
		if err != nil {
			if !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		p := a.Append(nil)
		if len(p) > MaxAddressLen {
			t.Fatalf("%x is packed in %d bytes", b, len(p))
		}
		again, err := ParseAddress(p)
		if err != nil || again.pkey() != a.pkey() || again.mtu() != a.mtu() {
			t.Fatalf("%x: %+v, then %x: %+v, %v", b, a, p, again, err)
		}
		again.MTU, again.PKey = a.MTU, a.PKey
		if again != a {
			t.Fatalf("%x: %+v, then %+v", b, a, again)
		}
	})
}
