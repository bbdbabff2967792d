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
	d.back.handshake.AllDevices = true
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
