//go:build linux

package tcp

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/uct/ucttest"
)

func addr(s string) sockaddr {
	a := netip.MustParseAddrPort(s)
	return makeSockaddr(a.Addr(), a.Port())
}

// Captured from C UCX: ucx_perftest over UCX_TLS=tcp, each release with itself.
// tag_lat -s 8 gave the first flights over lo, tag_lat -s 100000 the put; the
// others come from UCT-level runs over Ethernet and IPv6.
var goldenFrames = []struct {
	name string
	hex  string
	make func() []byte
}{
	{
		"first flight, 1.22.0, lo",
		"78563412bebafeca201d000000010000000000000000000000000200" + "90af7f0000010000000000000000",
		func() []byte { return appendRequest(appendMagic(nil), request{from: addr("127.0.0.1:37039")}) },
	},
	{
		"first flight, 1.13.1, lo",
		"78563412bebafeca201d000000010000000000000000000000000200" + "936d7f0000010000000000000000",
		func() []byte { return appendRequest(appendMagic(nil), request{from: addr("127.0.0.1:37741")}) },
	},
	{
		"first flight, both, IPv6",
		"78563412bebafeca20290000000100000000" + "0000000000000000" +
			"0a00a26900000000fd00000000000000000000000000000200000000",
		func() []byte { return appendRequest(appendMagic(nil), request{from: addr("[fd00::2]:41577")}) },
	},
	{
		"first flight with key 3, both",
		"78563412bebafeca201d00000001000000" + "01" + "0300000000000000" + "0200b7bdc00002020000000000000000",
		func() []byte {
			return appendRequest(appendMagic(nil), request{flags: reqToEP, id: 3, from: addr("192.0.2.2:47037")})
		},
	},
	{"ACK, both", "200400000002000000", func() []byte { return appendEvent(nil, eventAck) }},
	{"ACK+REQ, both", "200400000003000000", func() []byte { return appendEvent(nil, eventAckReq) }},
	{"FIN, both", "200400000004000000", func() []byte { return appendEvent(nil, eventFin) }},
	{
		"put of 100000 bytes, 1.13.1",
		"211400000000d0df4e547f0000a08601000000000000000000",
		func() []byte {
			return appendPutHeader(nil, putHeader{addr: 0x7f544edfd000, length: 100000})
		},
	},
	{
		"flush, 1.22.0",
		"21140000000000000000000000000000000000000001000000",
		func() []byte { return appendPutHeader(nil, putHeader{sn: 1}) },
	},
	{"put acknowledgement, both", "220400000001000000", func() []byte { return appendPutAck(nil, 1) }},
	{"keepalive, both", "2300000000", func() []byte { return appendFrameHeader(nil, idKeepalive, 0) }},
}

func TestGoldenFrames(t *testing.T) {
	for _, g := range goldenFrames {
		t.Run(g.name, func(t *testing.T) {
			want := ucttest.Unhex(t, g.hex)
			if got := g.make(); !bytes.Equal(got, want) {
				t.Errorf("encoded\n%x, C sends\n%x", got, want)
			}
		})
	}
}

func TestParseGolden(t *testing.T) {
	for _, g := range goldenFrames {
		b := bytes.TrimPrefix(ucttest.Unhex(t, g.hex), magicBytes)
		payload := b[hdrLen:]
		if int(le.Uint32(b[1:])) != len(payload) {
			t.Errorf("%s: length field %d, payload %d", g.name, le.Uint32(b[1:]), len(payload))
		}
		switch {
		case b[0] == idCM && cmEvent(le.Uint32(payload)) == eventReq:
			r, err := parseRequest(payload)
			if err != nil {
				t.Errorf("%s: %v", g.name, err)
			}
			if again := appendRequest(nil, r); !bytes.Equal(again, b) {
				t.Errorf("%s: read as %+v, which encodes to %x", g.name, r, again)
			}
		case b[0] == idPutReq:
			if again := appendPutHeader(nil, parsePutHeader(payload)); !bytes.Equal(again, b) {
				t.Errorf("%s: encodes to %x", g.name, again)
			}
		}
	}
}

func TestParseRequestRefuses(t *testing.T) {
	good := appendRequest(nil, request{id: 1, from: addr("10.0.0.1:5")})[hdrLen:]
	for n := range good {
		if _, err := parseRequest(good[:n]); err == nil {
			t.Errorf("accepted %d bytes", n)
		}
	}
	if _, err := parseRequest(append(good[:len(good):len(good)], 0)); err == nil {
		t.Error("accepted a byte too many")
	}
	bad := bytes.Clone(good)
	bad[reqLen] = 1 // AF_UNIX
	if _, err := parseRequest(bad); err == nil {
		t.Error("accepted family 1")
	}
	// C UCX compares all bytes of a key; this library compares only those with a meaning.
	odd := bytes.Clone(good)
	odd[len(odd)-1] = 7
	if r, err := parseRequest(odd); err != nil || r.from != addr("10.0.0.1:5") {
		t.Errorf("padding that is not zero: %+v, %v", r, err)
	}
}

func TestCompareSockaddr(t *testing.T) {
	// In ascending order, by ucs_sockaddr_cmp.
	list := []string{
		"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:256", "10.0.0.2:1", "192.0.2.2:1",
		"[::1]:65535", "[fd00::1]:1", "[fd00::1]:513", "[fd00::2]:1",
	}
	for i := range list {
		for j := range list {
			a, b := addr(list[i]), addr(list[j])
			got := a.compare(&b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s against %s: %d", list[i], list[j], got)
			}
		}
	}
}
