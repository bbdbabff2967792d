//go:build linux

package ucptest

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// The number of devices used at once: UCX_MAX_EAGER_RAILS and UCX_MAX_RMA_RAILS. UCX_MAX_RNDV_RAILS
// is tested in rails_test.go.

// railBytes counts the bytes that each device has sent or requested.
type railBytes struct {
	devices []string
	count   portCount
}

// countRails starts to count the bytes of devices with one port each.
func countRails(devices map[string]*verbstest.Kernel, names ...string) *railBytes {
	b := &railBytes{count: countPorts(devices)}
	for _, n := range names {
		b.devices = append(b.devices, n+":1")
	}
	return b
}

// shared checks that each device had its share of n bytes since the last check.
func (b *railBytes) shared(t *testing.T, n int) {
	t.Helper()
	part := n / len(b.devices)
	for _, dev := range b.devices {
		if got := b.count[dev]; got < part-part/4 || got > part+part/4 {
			t.Errorf("%d of %d bytes went over %s", got, n, dev)
		}
	}
	clear(b.count)
}

// only checks that one device had all n bytes since the last check, apart from connection messages
// and acknowledgements.
func (b *railBytes) only(t *testing.T, n int) {
	t.Helper()
	const told = 200
	used := 0
	for _, dev := range b.devices {
		if b.count[dev] >= n {
			used++
		} else if b.count[dev] > told {
			t.Errorf("%d of %d bytes went over %s", b.count[dev], n, dev)
		}
	}
	if used != 1 {
		t.Errorf("%d bytes: %v", n, b.count)
	}
	clear(b.count)
}

// eagerRailSizes result in one fragment, two, and many.
var eagerRailSizes = []int{1, 4000, 64 << 10, 64<<10 + 1, 1<<20 - 3}

// TestEagerRails checks that the fragments of eager messages go over both devices, with and without
// copies, for every kind of message, even if each fragment has to wait.
func TestEagerRails(t *testing.T) {
	needtest.Goroutines(t)
	for _, tls := range []string{"rc_v", "ud_v"} {
		for _, zcopy := range []string{"0", "inf"} {
			for _, queues := range [][]setting{nil, least} {
				name := fmt.Sprintf("%s zcopy from %s", tls, zcopy)
				if queues != nil {
					name += " least queues"
				}
				t.Run(name, func(t *testing.T) { testEagerRails(t, tls, zcopy, queues) })
			}
		}
	}
}

func testEagerRails(t *testing.T, tls, zcopy string, queues []setting) {
	devices := frailNet.renew(t, "frail0", "frail1")
	tr := onFabric("frail", tls).using("frail0:1,frail1:1").with(queues...).
		with(setting{"MAX_EAGER_RAILS", "2"}, setting{"RNDV_THRESH", "inf"}, setting{"ZCOPY_THRESH", zcopy})
	tr.paired = tls != "ud_v"
	r := newRig(t, tr)
	both := ucp.ContextParams{Features: amFeatures | ucp.FeatureStream}
	a, b := r.openWith(both, ucp.WorkerParams{}), r.openWith(both, ucp.WorkerParams{})
	there := a.connect(b)
	r.warm(there, b)
	sink := b.sink(1)
	bytes := countRails(devices, "frail0", "frail1")
	for k, n := range eagerRailSizes {
		src := ucttest.Pattern(n, uint64(k))
		buf := make([]byte, n)
		recv := r.started(b.TagRecv(2, ucp.FullMask, buf, nil))
		r.must(there.TagSend(2, src, nil))
		r.must(recv, nil)
		ucttest.SameBytes(t, fmt.Sprintf("message of %d", n), buf, src)
		r.settle()
		if n >= 1<<19 && queues == nil {
			bytes.shared(t, n)
		}
		header := ucttest.Pattern(100, uint64(n))
		r.must(there.AMSend(1, header, src, nil))
		got := sink.next(k)
		ucttest.SameBytes(t, "header", got.header, header)
		ucttest.SameBytes(t, fmt.Sprintf("active message of %d", n), got.data, src)
		r.settle()
		if n >= 1<<19 && queues == nil {
			bytes.shared(t, n)
		}
		clear(bytes.count)
	}
	// Several messages in flight are kept apart and in order.
	const n, many = 100_000, 7
	var sends, recvs []*ucp.Request
	bufs := make([][]byte, many)
	for k := range many {
		req, err := there.TagSend(9, ucttest.Pattern(n+k, uint64(k)), nil)
		if err != nil {
			t.Fatal(err)
		}
		sends = append(sends, req)
	}
	for k := range many {
		bufs[k] = make([]byte, n+many)
		recvs = append(recvs, r.started(b.TagRecv(9, ucp.FullMask, bufs[k], nil)))
	}
	for k := range many {
		r.must(recvs[k], nil)
		ucttest.SameBytes(t, fmt.Sprintf("message %d", k), bufs[k][:n+k], ucttest.Pattern(n+k, uint64(k)))
		r.must(sends[k], nil)
	}
	// A stream relies on the order of a lane, so it uses one.
	back := b.connect(a)
	clear(bytes.count)
	const piece = 1 << 18
	buf := make([]byte, piece)
	send, err := there.StreamSend(ucttest.Pattern(piece, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, recv, err := back.StreamRecv(buf, &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll})
	if err != nil {
		t.Fatal(err)
	}
	if recv != nil {
		r.must(recv, nil)
	} else if got != piece {
		t.Errorf("%d bytes of a stream", got)
	}
	r.must(send, nil)
	ucttest.SameBytes(t, "stream", buf, ucttest.Pattern(piece, 1))
	r.settle()
	if queues == nil {
		bytes.only(t, piece)
	}
	r.clean(a, b)
}

// TestOneEagerRail checks that the default, and 0, is one device.
func TestOneEagerRail(t *testing.T) {
	for _, rails := range []string{"", "0", "1"} {
		t.Run(rails, func(t *testing.T) {
			devices := frailNet.renew(t, "frail0", "frail1")
			tr := rc.using("frail0:1,frail1:1").with(setting{"RNDV_THRESH", "inf"})
			if rails != "" {
				tr = tr.with(setting{"MAX_EAGER_LANES", rails})
			}
			r := newRig(t, tr)
			a, b := r.pair()
			there := a.connect(b)
			r.warm(there, b)
			bytes := countRails(devices, "frail0", "frail1")
			r.transferLong(there, b)
			bytes.only(t, 1<<20)
		})
	}
}

// TestRMARails checks that puts and gets without copies use as many devices as the setting says, if
// each gets enough bytes.
func TestRMARails(t *testing.T) {
	needtest.Goroutines(t)
	for _, c := range []struct {
		name, rails string
		queues      []setting
	}{{"default", "", nil}, {"none", "0", nil}, {"two", "2", nil}, {"two with least queues", "2", least}} {
		t.Run(c.name, func(t *testing.T) { testRMARails(t, c.rails, c.queues) })
	}
}

func testRMARails(t *testing.T, rails string, queues []setting) {
	devices := frailNet.renew(t, "frail0", "frail1")
	tr := rc.using("frail0:1,frail1:1").with(queues...).with(setting{"ZCOPY_THRESH", "2k"})
	if rails != "" {
		tr = tr.with(setting{"MAX_RMA_LANES", rails})
	}
	r := newRig(t, tr)
	a, b := r.oneSidedPair()
	there := a.connect(b)
	const most = 1<<20 + 77
	memory := make([]byte, most+2)
	w := r.unpack(there, b.expose(memory, 0))
	r.warm(there, b)
	bytes := countRails(devices, "frail0", "frail1")
	for k, n := range []int{1, 4096, 15 << 10, 16 << 10, 100_001, most} {
		for _, kind := range []string{"put", "get"} {
			local := make([]byte, n)
			put := ucttest.Pattern(n, uint64(k))
			if kind == "put" {
				copy(local, put)
				clear(memory)
			}
			clear(bytes.count)
			at := w
			at.addr++
			if err := r.access(there, kind, at, local); err != nil {
				t.Fatal(err)
			}
			ucttest.SameBytes(t, fmt.Sprintf("%s of %d", kind, n), local, put)
			ucttest.SameBytes(t, fmt.Sprintf("memory after %s of %d", kind, n), memory[1:n+1], put)
			if memory[0] != 0 || memory[n+1] != 0 {
				t.Errorf("%s of %d bytes: beside it is %d and %d", kind, n, memory[0], memory[n+1])
			}
			switch {
			case rails == "2" && n >= 16<<10:
				bytes.shared(t, n)
			case n >= 4096:
				bytes.only(t, n)
			}
		}
	}
	// Lists of buffers are cut at the boundary between two devices.
	var list [][]byte
	var whole []byte
	for k := range 5 {
		list = append(list, ucttest.Pattern(10_000+k, uint64(k)))
		whole = append(whole, list[k]...)
	}
	r.must(there.Put(nil, w.addr, w.key, &ucp.RequestParams{Buffer: ucp.IOV(list...)}))
	r.must(there.Flush(nil))
	ucttest.SameBytes(t, "memory after the put of a list", memory[:len(whole)], whole)
	for _, b := range list {
		clear(b)
	}
	r.must(there.Get(nil, w.addr, w.key, &ucp.RequestParams{Buffer: ucp.IOV(list...)}))
	for k := range list {
		ucttest.SameBytes(t, "list that was got", list[k], ucttest.Pattern(10_000+k, uint64(k)))
	}
	// Consecutive puts with fences between them: the last one wins, on either device.
	for k := range 8 {
		if _, err := there.Put(ucttest.Pattern(most, uint64(k)), w.addr, w.key, nil); err != nil {
			t.Fatal(err)
		}
		if err := a.Fence(); err != nil {
			t.Fatal(err)
		}
	}
	r.must(there.Flush(nil))
	ucttest.SameBytes(t, "memory after fences", memory[:most], ucttest.Pattern(most, 7))
	r.clean(a, b)
}
