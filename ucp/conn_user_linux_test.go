package ucp

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestClientIDs: client and server tell each other theirs, and which endpoint is whose.
func TestClientIDs(t *testing.T) {
	for _, id := range []uint64{0, 5} {
		ctx, err := NewContext(ContextParams{Features: FeatureStream}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ctx.Close()
		open := func() *Worker {
			w, err := ctx.NewWorker(WorkerParams{ThreadMode: ucs.ThreadModeMulti, ClientID: 7})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		s, c := open(), open()
		var told uint64
		accepted := make(chan *Endpoint, 1)
		l, err := s.NewListener(ListenerParams{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OnConnRequest: func(r *ConnRequest) {
			told = r.ClientID()
			ep, err := s.NewEndpoint(EndpointParams{ConnRequest: r, ErrMode: ErrModePeer, ClientID: id + told, UserData: "server"})
			if err != nil {
				t.Error(err)
			}
			accepted <- ep
		}})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { s.Run(running); close(over) }()
		ep, err := c.NewEndpoint(EndpointParams{RemoteAddr: l.Addr(), ErrMode: ErrModePeer, ClientID: id})
		if err != nil {
			t.Fatal(err)
		}
		if n := ep.MaxStreamNow(); n != 0 {
			t.Errorf("%d bytes may be sent at once before there is a connection", n)
		}
		if err := ep.ConnectWait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := ep.MaxStreamNow(); n <= 0 {
			t.Errorf("%d bytes may be sent at once", n)
		}
		other := <-accepted
		if told != id || ep.ServerID() != 2*id || other.ServerID() != 0 || other.UserData() != "server" || ep.UserData() != nil {
			t.Errorf("the server was told %d, the client %d; user data %v and %v", told, ep.ServerID(), other.UserData(), ep.UserData())
		}
		ep.Close()
		if err := ep.ConnectWait(t.Context()); !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("ConnectWait of a closed endpoint: %v", err)
		}
		stop()
		<-over
		c.Close()
		s.Close()
	}
	ctx, err := NewContext(ContextParams{Features: FeatureStream}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	w, err := ctx.NewWorker(WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	addr, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.NewEndpoint(EndpointParams{Address: addr, ClientID: 1}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a client id for an endpoint to a worker's address: %v", err)
	}
}
