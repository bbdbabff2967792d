package ucp

import (
	"context"
	"testing"
)

// TestWaitMemOfPeers: what a peer writes ends the wait, by messages and straight into the
// memory, where nothing tells of it.
func TestWaitMemOfPeers(t *testing.T) {
	for _, tls := range []string{"tcp", "posix"} {
		w, other := neighbor(t, "TLS", tls, "NET_DEVICES", "lo"), neighbor(t, "TLS", tls, "NET_DEVICES", "lo")
		m, err := other.ctx.Alloc(4096, 0)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := m.PackRkey()
		if err != nil {
			t.Fatal(err)
		}
		ep, err := w.NewEndpoint(EndpointParams{Address: other.own.address})
		if err != nil {
			t.Fatal(err)
		}
		key, err := ep.UnpackRkey(packed)
		if err != nil {
			t.Fatal(err)
		}
		flushed := make(chan error)
		go func() {
			_, err := ep.Put([]byte{1, 0, 0, 0, 0, 0, 0, 1}, m.Attr().Address, key, nil)
			if err == nil {
				var r *Request
				if r, err = ep.Flush(nil); err == nil {
					err = r.Wait(context.Background())
				}
			}
			flushed <- err
		}()
		for !changed(m.Bytes()[:8], 0) { // what else happens ends a wait, too
			if err := other.WaitMem(context.Background(), m.Bytes()[:8], 0); err != nil {
				t.Fatalf("%s: %v", tls, err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan struct{})
		go func() { other.Run(ctx); close(ran) }() // for the answers
		if err := <-flushed; err != nil {
			t.Errorf("%s: %v", tls, err)
		}
		cancel()
		<-ran
		key.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
