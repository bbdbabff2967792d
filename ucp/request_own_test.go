package ucp

import (
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestOwnRequestMovesOn: a request object of the caller is used for an operation on another worker
// as soon as it reports that it is done. The race detector checks that the first worker no longer
// accesses it.
func TestOwnRequestMovesOn(t *testing.T) {
	s := newShared(t)
	there, err := s.to.NewEndpoint(EndpointParams{Address: s.to.own.address})
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan *Endpoint)
	defer close(ends)
	go func() {
		for ep := range ends {
			if err := ep.TagSendSyncWait(t.Context(), 1, nil); err != nil {
				t.Error(err)
			}
		}
	}()
	var own Request
	called := 0
	for n := range 100 {
		w, ep := s.Worker, s.own
		if n%2 == 1 {
			w, ep = s.to, there
		}
		p := &RequestParams{Request: &own}
		if n%3 == 0 {
			p.OnTagRecv = func(_ *Request, err error, info TagRecvInfo, _ any) {
				if called++; err != nil || info.SenderTag != 1 {
					t.Errorf("a callback is told %v, %+v", err, info)
				}
			}
		}
		if _, err := w.TagRecv(1, FullMask, nil, p); err != nil {
			t.Fatal(err)
		}
		ends <- ep
		for own.Err() == ucs.InProgress {
			runtime.Gosched()
		}
		if err := own.Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.Stats() // waits for the last callbacks
	s.to.Stats()
	if called != 34 {
		t.Errorf("%d callbacks, want 34", called)
	}
}
