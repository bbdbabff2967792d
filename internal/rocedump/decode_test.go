//go:build linux

package main

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

// Ethernet headers with IPv4, from 10.9.0.1 to 10.9.0.2, and with IPv6 between link-local
// addresses, then UDP to the port of RoCE. Lengths and checksums are 0, as decode ignores them.
const (
	over4 = "020000000002020000000001" + "0800" + "4500000000000000401100000a0900010a090002" + "ffc012b700000000"
	over6 = "020000000002020000000001" + "86dd" + "60000000000011ff" + "fe800000000000000000000000000001" + "fe800000000000000000000000000002" + "ffc012b700000000"
	icrc  = "01020304"
)

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct{ frame, want string }{
		// The bytes after the InfiniBand headers are from sessions of C UCX 1.22.0.
		"CREQ": {over4 + "64000000" + "0000001d" + "00000001" + "1ee7a330" + "0000001d" + "ffffff2201000000010000001d0000000000" + icrc,
			"10.9.0.1 > 10.9.0.2 UD SEND_ONLY qp 0x1d psn 1 from 0x1d ; ep 0xffffff CTL ACK_REQ psn 1 ack 0 | ffffff2201000000010000001d0000000000"},
		"AM of datagrams": {over6 + "64800000" + "0000001d" + "00000007" + "1ee7a330" + "0000001e" + "0000000b03000100" + icrc,
			"fe80::1 > fe80::2 UD SEND_ONLY qp 0x1d psn 7 SE from 0x1e ; ep 0x0 AM 1 ACK_REQ psn 3 ack 1 | 0000000b03000100"},
		"NACK, key of another": {over4 + "64000000" + "0000001d" + "00000007" + "11111111" + "0000001e" + "0500000803000900" + icrc,
			"10.9.0.1 > 10.9.0.2 UD SEND_ONLY qp 0x1d psn 7 from 0x1e qkey 0x11111111 ; ep 0x5 NACK psn 3 ack 9 | 0500000803000900"},
		"grant": {over4 + "04300000" + "00000024" + "80000102" + "e0" + "000000" + icrc,
			"10.9.0.1 > 10.9.0.2 RC SEND_ONLY qp 0x24 psn 258 A ; AM 0 SOFT HARD GRANT | e0"},
		"long": {over4 + "04000000" + "00000024" + "00000000" + "22" + strings.Repeat("ab", 99) + icrc,
			"10.9.0.1 > 10.9.0.2 RC SEND_ONLY qp 0x24 psn 0 ; AM 2 SOFT | 22" + strings.Repeat("ab", 47) + "..100"},
		"read": {over4 + "0c000000" + "00000024" + "80000003" + "00007f0012345678" + "000020ce" + "00010000" + icrc,
			"10.9.0.1 > 10.9.0.2 RC READ_REQ qp 0x24 psn 3 A va 0x7f0012345678 rkey 0x20ce len 65536"},
		"answer": {over4 + "10000000" + "00000024" + "00000003" + "1f000004" + "0011" + "0000" + icrc,
			"10.9.0.1 > 10.9.0.2 RC READ_ONLY qp 0x24 psn 3 syndrome 0x1f msn 4 | 00110000"},
		"NAK": {over4 + "11000000" + "00000024" + "00000003" + "62000004" + icrc,
			"10.9.0.1 > 10.9.0.2 RC ACK qp 0x24 psn 3 syndrome 0x62 msn 4"},
		"atomic": {over4 + "14000000" + "00000024" + "80000003" + "0000000000001000" + "00000005" + "0000000000000001" + "0000000000000000" + icrc,
			"10.9.0.1 > 10.9.0.2 RC FETCH_ADD qp 0x24 psn 3 A va 0x1000 rkey 0x5 swap/add 0x1 compare 0x0"},
		"its answer": {over4 + "12000000" + "00000024" + "00000003" + "1f000004" + "00000000000000ff" + icrc,
			"10.9.0.1 > 10.9.0.2 RC ATOMIC_ACK qp 0x24 psn 3 syndrome 0x1f msn 4 was 0xff"},
		"immediate":       {over4 + "05000000" + "00000024" + "00000003" + "0000002a" + icrc, "10.9.0.1 > 10.9.0.2 RC SEND_ONLY_IMM qp 0x24 psn 3 imm 0x2a"},
		"of no kind":      {over4 + "ff000000" + "00000024" + "00000003" + icrc, "10.9.0.1 > 10.9.0.2 opcode 0xff"},
		"cut off":         {over4 + "0400", "10.9.0.1 > 10.9.0.2 RC SEND_FIRST qp 0x0 psn 0 (cut off)"},
		"cut off, check":  {over4 + "040000000000002400000000" + "0102", "10.9.0.1 > 10.9.0.2 RC SEND_ONLY qp 0x24 psn 0 (cut off)"},
		"another port":    {strings.Replace(over4, "12b7", "0035", 1) + "040000000000002400000000" + icrc, ""},
		"TCP":             {strings.Replace(over4, "4011", "4006", 1) + "040000000000002400000000" + icrc, ""},
		"no IP":           {"0200000000020200000000010806" + strings.Repeat("00", 60), ""},
		"no Ethernet":     {"0200", ""},
		"options of IPv4": {strings.Replace(strings.Replace(over4, "45000000", "46000000", 1), "ffc012b7", "00000000ffc012b7", 1) + "11000000" + "00000024" + "00000003" + "62000004" + icrc, "10.9.0.1 > 10.9.0.2 RC ACK qp 0x24 psn 3 syndrome 0x62 msn 4"},
	} {
		frame, err := hex.DecodeString(c.frame)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := decode(frame); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// FuzzDecode: no frame makes decode panic.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{over4, over6, over4 + "640000000000001d00000001" + "1ee7a3300000001d" + "ffffff22010000000100" + icrc} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	fuzztest.Run(f, func(t *testing.T, frame []byte) { decode(frame) })
}
