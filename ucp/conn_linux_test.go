package ucp

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

func connWorker(t *testing.T, tls string) *Worker {
	t.Helper()
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Modify("TLS", tls)
	ctx, err := NewContext(ContextParams{Features: FeatureTag | FeatureRMA}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ctx.NewWorker(WorkerParams{ClientID: 77})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); ctx.Close() })
	return w
}

func TestConnect(t *testing.T) {
	for _, tls := range []string{"tcp", "tcp,posix", "all"} {
		t.Run(tls, func(t *testing.T) {
			s, c := connWorker(t, tls), connWorker(t, tls)
			var accepted *Endpoint
			l, err := s.NewListener(ListenerParams{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OnConnRequest: func(r *ConnRequest) {
				t.Log(r.ClientAddr())
				t.Log("id", r.ClientID())
				var err error
				accepted, err = s.NewEndpoint(EndpointParams{ConnRequest: r, ErrMode: ErrModePeer, OnError: func(_ *Endpoint, err error, _ any) { t.Log("server:", err) }})
				if err != nil {
					t.Error(err)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			ep, err := c.NewEndpoint(EndpointParams{RemoteAddr: l.Addr(), Flags: EndpointSendClientID, ErrMode: ErrModePeer,
				OnError: func(_ *Endpoint, err error, _ any) { t.Log("client:", err) }})
			if err != nil {
				t.Fatal(err)
			}
			send, err := ep.TagSendSync(1, []byte("hello"), nil)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 10)
			recv, err := s.TagRecv(1, FullMask, buf, nil)
			if err != nil {
				t.Fatal(err)
			}
			end := time.Now().Add(3 * time.Second)
			for !(send.Done() && recv.Done()) && time.Now().Before(end) {
				s.Progress()
				c.Progress()
			}
			t.Log(send.Err(), recv.Err(), ep.Err())
			t.Log(ep.Attr().Transports)
			t.Log(ep.LocalAddr())
			t.Log(ep.Explain().Lanes)
			if accepted != nil {
				t.Log(accepted.Attr().Transports, accepted.Err())
			}
			if !send.Done() || !recv.Done() {
				t.Fatal("not delivered")
			}
			r, err := ep.CloseAsync(nil)
			for end := time.Now().Add(3 * time.Second); r != nil && !r.Done() && time.Now().Before(end); {
				s.Progress()
				c.Progress()
			}
			t.Log(err, r.Err(), accepted.Err())
			if r.Err() == ucs.InProgress {
				t.Fatal("close")
			}
			accepted.Shutdown(context.Background())
			l.Close()
		})
	}
}
