package ucp

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// excluding is scoped memory that permits accesses over one connection only.
type excluding struct {
	uct.ScopedMemory
	but *uct.Source
}

func (e excluding) Excludes(_ uct.Scope, src *uct.Source) bool { return src != e.but }

// TestOfferFromElsewhere checks that the receiver of a rendezvous offer asks for the data in
// messages if the offer arrives over a connection that may not write to the memory opened to the
// peer.
func TestOfferFromElsewhere(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo")
	if len(v.rights.scopers) != 1 {
		t.Fatalf("%d domains tell peers apart", len(v.rights.scopers))
	}
	own, other := newLocated("127.0.0.1:4000", true), newLocated("127.0.0.1:4001", true)
	v.rights.scopers[0].ScopedMemory = excluding{v.rights.scopers[0].ScopedMemory, &own.Source}
	const size = 1 << 20
	for _, c := range []struct {
		name  string
		by    *located
		where bool
	}{{"over a connection of its own", own, true}, {"over another one", other, false}, {"thereafter", own, false}} {
		buf := make([]byte, size)
		recv, err := v.TagRecv(1, FullMask, buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		rts := proto.RndvRTS{Header: 1, EpID: v.ep.localID, ReqID: 5, Size: size}
		if err := v.rndv.onRndvRTS(&c.by.Source, rts.Append(nil), nil); err != nil {
			t.Fatal(err)
		}
		if got := recv.fetch.target != 0; got != c.where {
			t.Errorf("%s: it is told where to write: %v", c.name, got)
		}
		data := append(proto.RndvData{RecvReqID: proto.RequestID(recv.localID)}.Append(nil), bytes.Repeat([]byte{7}, size)...)
		if err := v.rndv.onRndvData(&c.by.Source, data, nil); err != nil || !recv.Done() || recv.Err() != nil || buf[size-1] != 7 {
			t.Errorf("%s: %v, %v", c.name, err, recv.Err())
		}
	}
}
