package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestFailureEndsWhatLanesCarry: a send that a transport has accepted for a peer that does not read
// ends when its endpoint fails, with the cause of the failure. The application need not close the
// endpoint for that, and may close it in the callback of the send.
func TestFailureEndsWhatLanesCarry(t *testing.T) {
	for _, closes := range []bool{false, true} {
		w, ep := overTCP(t)
		hello, err := ep[0].TagSend(1, nil, nil)
		if err != nil || !progressed(w, hello.Done) {
			t.Fatal("no connection", err)
		}
		hello.Free()
		settle(w)
		ended, handled := 0, 0
		ep[0].onError = func(*Endpoint, error, any) { handled++ }
		r, err := ep[0].TagSend(1, make([]byte, 16<<20), &RequestParams{OnSend: func(_ *Request, err error, _ any) {
			ended++
			if !errors.Is(err, ucs.ErrEndpointTimeout) || !errors.Is(err, ep[0].err) {
				t.Errorf("the message ends with %v", err)
			}
			if closes {
				if _, err := ep[0].CloseAsync(nil); err != nil {
					t.Error(err)
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for w[0].Progress() > 0 {
		}
		if r.Done() {
			t.Fatal("all has left")
		}
		ep[0].fail(ucs.ErrEndpointTimeout)
		if ended != 1 || closes == (handled == 1) {
			t.Errorf("closes %v: %d ends, %d calls of the handler", closes, ended, handled)
		}
		r.Free()
	}
}
