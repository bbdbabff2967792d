//go:build linux

package ucptest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestStaleAddress: a worker has lost a device since a peer got its address. The peer's request
// over this device gets no reply, so the peer asks over the other devices, and its pending
// operations complete. Without other devices the endpoint fails, once.
func TestStaleAddress(t *testing.T) {
	needtest.Goroutines(t)
	for _, tls := range []string{"rc_v,tcp", "ib,tcp"} {
		for _, left := range []string{"lo", "frail2:1", "frail2:1,lo", ""} {
			for _, mode := range []ucp.ErrMode{ucp.ErrModeNone, ucp.ErrModePeer} {
				if mode == ucp.ErrModePeer {
					t.Run(tls+" with "+left+" left, error mode peer", func(t *testing.T) { testStaleAddress(t, tls, left, mode) })
				} else {
					t.Run(tls+" with "+left+" left", func(t *testing.T) { testStaleAddress(t, tls, left, mode) })
				}
			}
		}
	}
}

func testStaleAddress(t *testing.T, tls, left string, mode ucp.ErrMode) {
	devices := frailNet.renew(t, "frail0", "frail1", "frail2")
	tr := onFabric("frail", tls).vanishing()
	tr.paired = true
	more := left
	if left != "" {
		more = "," + left
	}
	r := newRig(t, tr)
	r.transport = tr.using("frail0:1" + more)
	a := r.open()
	r.transport = tr.using("frail1:1" + more)
	b := r.open()
	stale := slices.Clone(b.address())
	devices["frail1"].Remove()
	r.until("the worker to know", func() bool { return !slices.Equal(b.address(), stale) })

	told := 0
	p := ucp.EndpointParams{Address: stale, ErrMode: mode, OnError: func(*ucp.Endpoint, error, any) { told++ }}
	if mode == ucp.ErrModeNone {
		p.OnError = nil
	}
	there, err := a.NewEndpoint(p)
	if err != nil {
		t.Fatal(err)
	}
	first := there.Attr().Transports[0].Device
	short := r.started(there.TagSend(1, ucttest.Pattern(8, 1), nil))
	const n = 1 << 20
	long := r.started(there.TagSend(2, ucttest.Pattern(n, 2), nil))
	if left == "" {
		r.until("the sends to end", func() bool { return short.Done() && long.Done() })
		if !errors.Is(short.Err(), ucs.ErrEndpointTimeout) || !errors.Is(long.Err(), ucs.ErrEndpointTimeout) {
			t.Errorf("sends to nobody: %v, %v", short.Err(), long.Err())
		}
		if mode == ucp.ErrModePeer && told != 1 {
			t.Errorf("told %d times", told)
		}
		short.Free()
		long.Free()
		r.finish(there.CloseAsync(nil))
		return
	}
	if first != "frail0:1" {
		t.Fatalf("asks over %s first", first)
	}
	buf := make([]byte, 8)
	r.must(b.TagRecv(1, ucp.FullMask, buf, nil))
	ucttest.SameBytes(t, "short message", buf, ucttest.Pattern(8, 1))
	buf = make([]byte, n)
	r.must(b.TagRecv(2, ucp.FullMask, buf, nil))
	ucttest.SameBytes(t, "long message", buf, ucttest.Pattern(n, 2))
	r.must(short, nil)
	r.must(long, nil)
	for _, l := range there.Attr().Transports {
		if l.Device == "frail0:1" && left == "lo" {
			t.Errorf("a lane over %+v", l)
		}
	}
	if told != 0 || there.Err() != nil {
		t.Errorf("told %d times: %v", told, there.Err())
	}
	r.transferLong(there, b)
	r.must(there.CloseAsync(nil))
}
