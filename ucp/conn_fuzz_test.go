package ucp

import (
	"net/netip"
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// FuzzConnData feeds a listener with what clients say. It answers as far as it gets
// without a connection: lanes are chosen, made and connected. Nothing panics, the request is
// consumed, and nothing is left.
func FuzzConnData(f *testing.F) {
	was := log.SetLogger(zap.NewNop())
	f.Cleanup(func() { log.SetLogger(was) })
	r := newRawCaller(newDuo(f))
	honest := r.clientData()
	f.Add(honest)
	for _, n := range []int{0, 8, 9, 12, len(honest) - 1} {
		f.Add(honest[:n])
	}
	if d, err := proto.ParseCMData(honest, nil); err == nil {
		for _, v := range []proto.CMVersion{proto.CMDataV1, proto.CMDataV2} {
			for _, rsc := range []bool{false, true} {
				d.Version, d.RscIndex = v, rsc
				if b, err := d.Append(nil); err == nil {
					f.Add(b)
				}
			}
		}
	}
	fuzztest.Run(f, func(t *testing.T, private []byte) {
		rejected := 0
		r.l.onRequest("tcp", &uct.ConnRequest{
			Source: uct.SourceInfo{Addr: netip.MustParseAddrPort("127.0.0.1:1"), Local: true},
			Device: "lo", RemoteDeviceAddr: []byte{0, 127, 0, 0, 1}, Private: private,
			Reject: func() error { rejected++; return nil },
		})
		if rejected == 0 {
			t.Error("the request was not consumed")
		}
		r.s.Progress()
		if n := r.s.endpoints.Len(); n != 0 {
			t.Errorf("%d endpoints are left", n)
		}
	})
}

// FuzzConnWireup lets the peer of a connection say something in each of its stages, that
// has the right ids. Nothing panics, and nothing is left of the connection when the
// application has closed it.
func FuzzConnWireup(f *testing.F) {
	was := log.SetLogger(zap.NewNop())
	f.Cleanup(func() { log.SetLogger(was) })
	d := newDuo(f)
	for _, typ := range forged {
		for shape := range 7 {
			f.Add(byte(shape*3), shape%2 == 0, byte(typ), byte(shape), []byte(nil))
		}
	}
	none := proto.WorkerAddress{Flags: proto.AddressHasUUID, UUID: 5}
	if b, err := none.Append(nil, proto.FormWireup); err == nil {
		f.Add(byte(9), true, byte(proto.WireupPreRequest), byte(0), b)
	}
	fuzztest.Run(f, func(t *testing.T, rounds byte, client bool, typ, shape byte, address []byte) {
		d.TB = t
		d.forge(forgery{
			rounds: int(rounds) % stages, client: client, typ: proto.WireupType(typ) % 8, shape: int(shape), uuid: int(shape) / 7, bytes: address,
		})
		d.TB = f
	})
}
