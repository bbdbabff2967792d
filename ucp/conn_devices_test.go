package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
)

// TestUnaskedDevices: a client with UCX_CM_USE_ALL_DEVICES=n to which a server sends PRE_REQUEST all
// the same, as C UCX 1.13 with y does, fails and says why; both ends hear of it.
func TestUnaskedDevices(t *testing.T) {
	needtest.Goroutines(t)
	logtest.Watch(t).Allow("")
	d := newDuo(t, "CM_USE_ALL_DEVICES", "n")
	d.dial()
	d.until("the server's end", func() bool { return d.back != nil })
	d.back.pair.conn.all = true
	d.until("the client's failure", func() bool { return d.there.Err() != nil })
	if err := d.there.Err(); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("the client: %v", err)
	}
	d.leave()
}

// TestStrayPreRequest: PRE_REQUEST that is for no endpoint that waits for it changes nothing.
func TestStrayPreRequest(t *testing.T) {
	needtest.Goroutines(t)
	logtest.Watch(t).Allow("")
	d := newDuo(t)
	d.dial()
	if !d.settled() {
		t.Fatal(d.there.Err())
	}
	all := d.s.own.describe(func(*iface) bool { return true })
	for _, id := range []proto.EndpointID{d.back.remoteID, d.back.remoteID + 2, 0} {
		if err := d.back.w.wireups.sendWireup(d.back, proto.WireupPreRequest, id, all); err != nil {
			t.Fatal(err)
		}
		d.progress(100)
	}
	if d.there.Err() != nil || d.back.Err() != nil {
		t.Errorf("the client: %v, the server: %v", d.there.Err(), d.back.Err())
	}
	d.leave()
}

// TestAgreeDevices: what the data of each release says of UCX_CM_USE_ALL_DEVICES, and what the server
// does about it with either value of its own.
func TestAgreeDevices(t *testing.T) {
	const reg = 0x20 // of a domain's capabilities, up to 1.18
	for _, test := range []struct {
		name    string
		version proto.CMVersion
		caps    uint8
		index   bool
		release string
		known   bool
		all     bool
	}{
		{"1.22, y", proto.CMDataV2, 0, true, "auto", true, true},
		{"1.22, n", proto.CMDataV2, 0, false, "auto", true, false},
		{"1.22, n, layout v1", proto.CMDataV1, 0, false, "auto", true, false},
		{"1.16, y", proto.CMDataV2, reg, true, "auto", true, true},
		{"1.16, n", proto.CMDataV2, reg, false, "auto", true, false},
		{"1.14, y", proto.CMDataV1, reg, true, "auto", true, true},
		{"1.13", proto.CMDataV1, reg, false, "auto", false, false},
		{"1.13, layout v2", proto.CMDataV2, reg, false, "1.13", false, false},
	} {
		for _, own := range []string{"y", "n"} {
			ctx := targetContext(t, "TLS", "tcp", "CM_USE_ALL_DEVICES", own, "PEER_RELEASE", test.release)
			w := openTarget(t, ctx)
			d := proto.CMData{Version: test.version, RscIndex: test.index}
			d.Address.Devices = []proto.AddressDevice{{MDCaps: test.caps}}
			want := test.all
			if !test.known {
				want = own == "y"
			}
			if got := w.conns.agreeDevices(&d); got != want {
				t.Errorf("%s, and here %s: %v", test.name, own, got)
			}
			w.Close()
			ctx.Close()
		}
	}
}
