//go:build linux

package ucptest

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// neighborhood resolves the neighbors of devices. Lookups of slow neighbors wait until their result
// is released.
type neighborhood struct {
	*testing.T
	slow   map[[16]byte]bool
	asked  chan [16]byte
	known  chan struct{} // closed when the result is known
	answer syscall.Errno
}

// newNeighborhood makes lookups of the ports at these addresses slow.
func newNeighborhood(t *testing.T, devices []*verbstest.Kernel, slow ...[]byte) *neighborhood {
	n := &neighborhood{t, make(map[[16]byte]bool), make(chan [16]byte, 64), make(chan struct{}), 0}
	for _, dev := range slow {
		a, err := ib.ParseAddress(dev)
		if err != nil {
			t.Fatal(err)
		}
		n.slow[a.GID] = true
	}
	for _, k := range devices {
		k.SetResolve(n.find)
	}
	return n
}

func (n *neighborhood) find(_, to [16]byte) syscall.Errno {
	if !n.slow[to] {
		return 0
	}
	n.asked <- to
	select {
	case <-n.known:
		return n.answer
	case <-time.After(10 * time.Second):
		n.Error("the worker waits for a neighbor")
		return syscall.ETIMEDOUT
	}
}

// TestSlowNeighbors: a request names a port that must be looked up in the network. The worker
// serves other peers meanwhile. After the lookup the requester gets its reply, for lanes over both
// of its devices, or none.
func TestSlowNeighbors(t *testing.T) {
	for _, tls := range []string{"rc_v", "ib"} {
		for _, errno := range []syscall.Errno{0, syscall.ETIMEDOUT} {
			t.Run(tls+" "+map[bool]string{true: "found", false: "not found"}[errno == 0], func(t *testing.T) {
				testSlowNeighbors(t, tls, errno)
			})
		}
	}
}

func testSlowNeighbors(t *testing.T, tls string, errno syscall.Errno) {
	devices := frailNet.renew(t, "frail0", "frail1", "frail2", "frail3", "frail4")
	tr := onFabric("frail", tls).pairwise()
	r := newRig(t, tr)
	r.transport = tr.using("frail0:1,frail1:1")
	a := r.open()
	r.transport = tr.using("frail2:1,frail3:1")
	b := r.open()
	r.transport = tr.using("frail4:1")
	other := r.open()
	known, back := other.connect(b), b.connect(other)
	r.exchange(known, b, back, other)

	n := newNeighborhood(t, []*verbstest.Kernel{devices["frail2"], devices["frail3"]}, r.parsed(a.address()).Devices[1].Addr)
	p := ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(*ucp.Endpoint, error, any) {}}
	there := a.connectWith(b, p)
	send := r.started(there.TagSendSync(1, nil, nil))
	recv := r.started(b.TagRecv(1, ucp.FullMask, nil, nil))
	r.until("the question for a neighbor", func() bool { return len(n.asked) > 0 || send.Done() })
	for range 10 {
		r.exchange(known, b, back, other)
	}
	if send.Done() {
		t.Fatalf("done before there is an answer: %v", send.Err())
	}
	n.answer = errno
	close(n.known)
	r.until("the end of a send", send.Done)
	if errno != 0 {
		if !errors.Is(send.Err(), ucs.ErrConnectionReset) {
			t.Errorf("to where there is no way back: %v", send.Err())
		}
		r.must(there.CloseAsync(force))
		b.Cancel(recv)
		r.exchange(known, b, back, other)
		send.Free()
		return
	}
	r.must(send, nil)
	r.must(recv, nil)
	if got := portsOf(there); !slices.Equal(got, []string{"frail0:1", "frail1:1"}) {
		t.Errorf("lanes over %v", got)
	}
	const size = 1 << 20
	buf := make([]byte, size)
	recv = r.started(b.TagRecv(2, ucp.FullMask, buf, nil))
	r.must(there.TagSend(2, ucttest.Pattern(size, 1), nil))
	r.must(recv, nil)
	ucttest.SameBytes(t, "message", buf, ucttest.Pattern(size, 1))
	r.clean(a, b, other)
}
