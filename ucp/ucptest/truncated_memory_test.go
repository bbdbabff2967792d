//go:build linux

package ucptest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestTruncated: all files of shared memory are truncated while messages are exchanged. Operations
// in flight end, endpoints fail once, and new ones work.
func TestTruncated(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "ucptest_")
	if err != nil {
		t.Skipf("missing: a directory in memory: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := newRig(t, transport{name: "posix", settings: []setting{{"TLS", "posix"}, named, {"POSIX_DIR", dir}}})
	r.log.Allow("truncated the shared memory")
	a, b := r.open(), r.open()
	failures := 0
	mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(*ucp.Endpoint, error, any) { failures++ }}
	ep := a.connectWith(b, mode)
	r.warm(ep, b)
	var sends []*ucp.Request
	for i := range 100 {
		req, err := ep.TagSend(ucp.Tag(i), ucttest.Pattern(4096, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		sends = append(sends, req)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 4 { // a ring and buffers for each worker
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if err := os.Truncate(f, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.finish(ep.TagSendSync(1000, ucttest.Pattern(4096, 1), nil)); err == nil {
		t.Error("a message through memory that is gone")
	}
	for _, req := range sends {
		r.finish(req, nil) // some sends were complete
	}
	r.until("the failure", func() bool { return ep.Err() != nil })
	r.settle()
	if failures != 1 {
		t.Errorf("the error handler ran %d times", failures)
	}
	r.must(ep.CloseAsync(nil))
	again := a.connectWith(b, mode)
	for i, size := range []int{8, 4096, 1 << 20} {
		r.sendAndTake(again, b, ucp.Tag(2000+i), ucttest.Pattern(size, 3))
	}
	// Messages that arrived before the truncation and were not received.
	buf := make([]byte, 4096)
	for i := range 100 {
		if _, ok := b.TagPeek(ucp.Tag(i), ucp.FullMask); ok {
			r.must(b.TagRecv(ucp.Tag(i), ucp.FullMask, buf, nil))
		}
	}
}
