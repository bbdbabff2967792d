package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestFlushOutlivesFailure: an endpoint fails with one of its lanes, and after that another
// one has flushed. What the flush waited for besides is not answered any more.
func TestFlushOutlivesFailure(t *testing.T) {
	v := newTarget(t, "TLS", "self")
	v.ep.flow().posted++ // by a message
	r, err := v.pool.useRequest(&RequestParams{Flags: OpNoImmediate})
	if err != nil {
		t.Fatal(err)
	}
	r.toward(v.ep)
	r.proto = flush{}
	v.ep.flushBegun()
	v.ep.fail(ucs.ErrConnectionReset)
	flush{}.completed(r, nil)
	if !r.Done() || r.Err() != v.ep.err {
		t.Fatalf("done: %v, %v; the endpoint: %v", r.Done(), r.Err(), v.ep.err)
	}
	r.Free()
}
