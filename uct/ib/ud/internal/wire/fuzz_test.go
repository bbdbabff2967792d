//go:build linux

package wire

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/capturetest"
)

// seed adds captured packets to the corpus.
func seed(f *testing.F) {
	for _, release := range capturetest.Releases {
		s, err := capturetest.Find(release, "udkeep")
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range s.Packets {
			f.Add(p.Data)
		}
	}
	f.Add([]byte{})
}

// FuzzPacket parses arbitrary data as packets of each kind. What is parsed must be equal after it
// is written and parsed again.
func FuzzPacket(f *testing.F) {
	seed(f)
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		if len(b) < HeaderLen {
			return
		}
		h := Load(b)
		out := make([]byte, HeaderLen)
		if h.Store(out); !bytes.Equal(out, b[:HeaderLen]) {
			t.Fatalf("%x becomes %x", b[:HeaderLen], out)
		}
		if h.Kind(len(b)) == KindAM {
			if g := AMHeader(h.Dest(), h.AMID(), h.PSN(), h.Ack()).WithAck(h.Ack(), h.AckReq()); g != h&^(1<<26) {
				t.Fatalf("%x becomes %x", uint64(h), uint64(g))
			}
		}
		if c, err := ParseCREQ(b); err == nil {
			again := AppendCREQ(nil, h, &c)
			if d, err := ParseCREQ(again); err != nil || d.Origin != c.Origin || !bytes.Equal(d.DevAddr, c.DevAddr) ||
				d.QPN != c.QPN || d.EP != c.EP || d.ConnSN != c.ConnSN || d.Path != c.Path || len(again) != len(b) {
				t.Fatalf("%+v becomes %+v, %v", c, d, err)
			}
		}
		if c, err := ParseCREP(b); err == nil {
			if d, err := ParseCREP(AppendCREP(nil, h, &c)); err != nil || d != c {
				t.Fatalf("%+v becomes %+v, %v", c, d, err)
			}
		}
		if _, data, err := ParsePut(b); err == nil && len(data)+16 != len(b) {
			t.Fatalf("%d bytes of data in %d", len(data), len(b))
		}
	})
}

// FuzzAddress parses arbitrary data as an address; the result must be packed to the same bytes.
func FuzzAddress(f *testing.F) {
	f.Add([]byte{0x2f, 0, 0})
	f.Add([]byte{0x2f, 0, 0, 0, 0, 0})
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		if qpn, err := ParseIfaceAddr(b); err == nil && !bytes.Equal(AppendIfaceAddr(nil, qpn), b) {
			t.Fatalf("%x is read as %x", b, qpn)
		}
		if qpn, ep, err := ParseEPAddr(b); err == nil && !bytes.Equal(AppendEPAddr(nil, qpn, ep), b) {
			t.Fatalf("%x is read as %x %x", b, qpn, ep)
		}
	})
}
