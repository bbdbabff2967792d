//go:build linux

package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestPSN(t *testing.T) {
	for _, tc := range []struct {
		p, q  PSN
		since int
	}{{1, 0, 1}, {0, 0xffff, 1}, {0xffff, 0, -1}, {0x7fff, 0, 0x7fff}, {5, 5, 0}, {0x100, 0xff00, 0x200}} {
		if got := tc.p.Since(tc.q); got != tc.since {
			t.Errorf("%d since %d: %d, want %d", tc.p, tc.q, got, tc.since)
		}
		if got := tc.p.After(tc.q); got != (tc.since > 0) {
			t.Errorf("%d after %d: %v", tc.p, tc.q, got)
		}
		if got := tc.p.Before(tc.q); got != (tc.since < 0) {
			t.Errorf("%d before %d: %v", tc.p, tc.q, got)
		}
	}
}

// TestKind checks the kind of packets by flags and length.
func TestKind(t *testing.T) {
	for _, tc := range []struct {
		flags Header
		n     int
		want  Kind
	}{
		{FlagAM, 7, KindBad},
		{FlagAM, 8, KindAM},
		{FlagAM | FlagNack | FlagPut | FlagCtl, 8, KindAM}, // these bits belong to its id
		{0, 8, KindAck},
		{FlagAckReq, 8, KindAck},
		{FlagNack, 8, KindNack},
		{FlagNack | FlagCtl, 48, KindNack},
		{FlagCtl, 8, KindAck},
		{FlagCtl, 9, KindCtl},
		{FlagCtl | FlagPut, 9, KindCtl},
		{FlagPut, 9, KindPut},
		{FlagPut, 8, KindAck},
		{0, 9, KindBad},
		{FlagAckReq, 4096, KindBad},
	} {
		if got := NewHeader(3, tc.flags, 1, 2).Kind(tc.n); got != tc.want {
			t.Errorf("flags %x, %d bytes: %d, want %d", uint64(tc.flags), tc.n, got, tc.want)
		}
	}
}

func TestHeader(t *testing.T) {
	h := AMHeader(0x123456, 31, 0xfffe, 0x8001)
	b := make([]byte, 8)
	h.Store(b)
	if want := []byte{0x56, 0x34, 0x12, 0xf9, 0xfe, 0xff, 0x01, 0x80}; !bytes.Equal(b, want) {
		t.Errorf("%x, want %x", b, want)
	}
	if g := Load(b); g != h || g.Dest() != 0x123456 || g.AMID() != 31 || g.PSN() != 0xfffe || g.Ack() != 0x8001 || g.AckReq() || !g.IsAM() {
		t.Errorf("%x is read as %x", b, uint64(g))
	}
	h = h.WithAck(7, true)
	if h.Ack() != 7 || !h.AckReq() || h.PSN() != 0xfffe || h.AMID() != 31 || h.Dest() != 0x123456 {
		t.Errorf("with another acknowledgement: %x", uint64(h))
	}
	if h = h.WithAck(0, false); h.AckReq() || h.Ack() != 0 {
		t.Errorf("without: %x", uint64(h))
	}
}

// TestRefusals passes invalid packets and addresses to the parsers.
func TestRefusals(t *testing.T) {
	good := CREQ{QPN: 0x13, EP: 1, ConnSN: 2, Path: 3, DevAddr: make([]byte, 17)}
	creq := func(change func(*CREQ)) []byte {
		c := good
		change(&c)
		return AppendCREQ(nil, NewHeader(NullID, FlagCtl, 1, 0), &c)
	}
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"good":         {creq(func(*CREQ) {}), nil},
		"short":        {creq(func(*CREQ) {})[:50], ErrShort},
		"no address":   {creq(func(c *CREQ) { c.DevAddr = nil }), ErrShort},
		"empty":        {nil, ErrShort},
		"CREP":         {AppendCREP(nil, 0, &CREP{})[:48:48], ErrShort},
		"long CREP":    {append(AppendCREP(nil, 0, &CREP{}), make([]byte, 17)...), ErrType},
		"QP 0":         {creq(func(c *CREQ) { c.QPN = 0 }), ErrQPN},
		"QP 1":         {creq(func(c *CREQ) { c.QPN = 1 }), ErrQPN},
		"multicast QP": {creq(func(c *CREQ) { c.QPN = 0xffffff }), ErrQPN},
		"no id":        {creq(func(c *CREQ) { c.EP = NullID }), ErrID},
	} {
		if _, err := ParseCREQ(tc.b); !errors.Is(err, tc.want) {
			t.Errorf("CREQ, %s: %v, want %v", name, err, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"good":      {AppendCREP(nil, 0, &CREP{EP: 5}), nil},
		"short":     {AppendCREP(nil, 0, &CREP{EP: 5})[:47], ErrShort},
		"CREQ":      {creq(func(*CREQ) {}), ErrType},
		"no id":     {AppendCREP(nil, 0, &CREP{EP: NullID}), ErrID},
		"large id":  {AppendCREP(nil, 0, &CREP{EP: 1 << 24}), ErrID},
		"largest":   {AppendCREP(nil, 0, &CREP{EP: NullID - 1}), nil},
		"only type": {make([]byte, 9), ErrShort},
	} {
		if _, err := ParseCREP(tc.b); !errors.Is(err, tc.want) {
			t.Errorf("CREP, %s: %v, want %v", name, err, tc.want)
		}
	}
	if _, _, err := ParsePut(make([]byte, 15)); !errors.Is(err, ErrShort) {
		t.Errorf("short put: %v", err)
	}
	for _, n := range []int{0, 2, 4, 6} {
		if _, err := ParseIfaceAddr(make([]byte, n)); !errors.Is(err, ErrAddress) {
			t.Errorf("interface address of %d bytes: %v", n, err)
		}
	}
	for _, n := range []int{0, 3, 5, 7} {
		if _, _, err := ParseEPAddr(make([]byte, n)); !errors.Is(err, ErrAddress) {
			t.Errorf("endpoint address of %d bytes: %v", n, err)
		}
	}
	if _, _, err := ParseEPAddr(AppendEPAddr(nil, 5, NullID)); !errors.Is(err, ErrID) {
		t.Errorf("address of no endpoint: %v", err)
	}
	if _, _, err := ParseEPAddr(AppendEPAddr(nil, 1, 1)); !errors.Is(err, ErrQPN) {
		t.Errorf("address of a queue pair of the subnet: %v", err)
	}
}

// TestAddresses compares addresses with those that C packs: those of the session "saud" of 1.13.1,
// in which UD lanes connect endpoint to endpoint and so have both kinds.
func TestAddresses(t *testing.T) {
	iface, ep := []byte{0x18, 0, 0}, []byte{0x18, 0, 0, 0, 0, 0}
	if qpn, err := ParseIfaceAddr(iface); qpn != 0x18 || err != nil {
		t.Errorf("%x: %x, %v", iface, qpn, err)
	}
	if got := AppendIfaceAddr(nil, 0x18); !bytes.Equal(got, iface) {
		t.Errorf("%x, want %x", got, iface)
	}
	if qpn, id, err := ParseEPAddr(ep); qpn != 0x18 || id != 0 || err != nil {
		t.Errorf("%x: %x %x, %v", ep, qpn, id, err)
	}
	if got := AppendEPAddr(nil, 0x18, 0); !bytes.Equal(got, ep) {
		t.Errorf("%x, want %x", got, ep)
	}
}
