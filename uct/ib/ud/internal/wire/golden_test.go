//go:build linux

package wire

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/ud/internal/capturetest"
)

// text describes a packet like the capture tool, without UCP's names of active messages.
func text(t *testing.T, p capturetest.Packet) string {
	h := Load(p.Data)
	s := fmt.Sprintf("[dst=%06x", h.Dest())
	kind := h.Kind(len(p.Data))
	switch kind {
	case KindAM:
		s += fmt.Sprintf(" AM id=%d", h.AMID())
	case KindAck:
		s += " ACK"
	case KindNack:
		s += " NACK"
	case KindPut:
		s += " PUT"
	case KindCtl:
		s += " CTL"
	}
	if h.AckReq() {
		s += " ACK_REQ"
	}
	s += fmt.Sprintf(" psn=%d ack=%d]", h.PSN(), h.Ack())
	if kind != KindCtl {
		return s
	}
	if h.Dest() == NullID {
		c, err := ParseCREQ(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		return s + fmt.Sprintf(" CREQ[ep_qpn=%06x ep_id=%06x conn_sn=%d path=%d]", c.QPN, c.EP, c.ConnSN, c.Path)
	}
	c, err := ParseCREP(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	return s + fmt.Sprintf(" CREP[src_ep_id=%d]", c.EP)
}

// want returns the tool's description without names in parentheses.
func want(s string) string {
	for {
		i := bytes.IndexByte([]byte(s), '(')
		if i < 0 {
			return s
		}
		j := bytes.IndexByte([]byte(s[i:]), ')')
		s = s[:i] + s[i+j+1:]
	}
}

// again builds the packet from what was parsed of it.
func again(t *testing.T, p capturetest.Packet) []byte {
	h := Load(p.Data)
	switch h.Kind(len(p.Data)) {
	case KindAM:
		h2 := AMHeader(h.Dest(), h.AMID(), h.PSN(), h.Ack()).WithAck(h.Ack(), h.AckReq())
		b := bytes.Clone(p.Data)
		h2.Store(b)
		return b
	case KindCtl:
		if h.Dest() == NullID {
			c, err := ParseCREQ(p.Data)
			if err != nil {
				t.Fatal(err)
			}
			return AppendCREQ(nil, NewHeader(NullID, FlagCtl, h.PSN(), h.Ack()).WithAck(h.Ack(), h.AckReq()), &c)
		}
		c, err := ParseCREP(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		return AppendCREP(nil, h, &c)
	case KindPut:
		return AppendKeepalive(nil, h&^FlagPut)
	}
	b := make([]byte, HeaderLen)
	h.Store(b)
	return b
}

// unused clears the bytes of control packets that C leaves undefined and no receiver reads.
func unused(b []byte) []byte {
	b = bytes.Clone(b)
	h := Load(b)
	if h.Kind(len(b)) != KindCtl {
		return b
	}
	ctl := b[HeaderLen:]
	clear(ctl[1:4])
	if h.Dest() == NullID {
		clear(ctl[10:12])
		clear(ctl[17:20])
	} else {
		clear(ctl[8:20])
	}
	return b
}

// TestGolden parses every captured packet, compares its description, and builds it again.
func TestGolden(t *testing.T) {
	for _, release := range capturetest.Releases {
		sessions, err := capturetest.Sessions(release)
		if err != nil {
			t.Fatal(err)
		}
		kinds := make(map[Kind]int)
		for _, s := range sessions {
			for _, p := range s.Packets {
				where := fmt.Sprintf("%s, line %d", release, p.Line)
				kind := Load(p.Data).Kind(len(p.Data))
				kinds[kind]++
				if kind == KindCtl && p.Kept < len(p.Data) {
					continue
				}
				if got, want := text(t, p), want(p.Text); got != want {
					t.Errorf("%s: %s, want %s", where, got, want)
				}
				if got, want := again(t, p), unused(p.Data); !bytes.Equal(got, want) {
					t.Errorf("%s:\n%x, want\n%x", where, got, want)
				}
			}
		}
		for k := KindAM; k <= KindPut; k++ {
			if kinds[k] == 0 {
				t.Errorf("%s: no packet of kind %d", release, k)
			}
		}
		if kinds[KindBad] != 0 {
			t.Errorf("%s: %d packets are nothing", release, kinds[KindBad])
		}
	}
}

// TestOrigin checks the origin and the device address in a captured CREQ.
func TestOrigin(t *testing.T) {
	s, err := capturetest.Find("1.22.0", "ud")
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCREQ(s.Packets[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	if want := NewOrigin("vm", 0xb3); c.Origin != want {
		t.Errorf("origin %+v, want %+v", c.Origin, want)
	}
	if want := append([]byte{0x48}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1); !bytes.Equal(c.DevAddr, want) {
		t.Errorf("device address %x, want %x", c.DevAddr, want)
	}
	if got := NewOrigin("a-rather-long-name-of-a-machine", 1); string(got.Host[:]) != "a-rather-long-n\x00" {
		t.Errorf("name %q", got.Host)
	}
}
