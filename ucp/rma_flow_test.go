package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestFlushOutlivesFailure: an endpoint fails with one of its lanes while a flush is pending, then
// another lane completes its part. The flush fails too, as the peer's acknowledgements will not
// arrive.
func TestFlushOutlivesFailure(t *testing.T) {
	v := newTarget(t, "TLS", "self")
	v.ep.flow().posted++ // counts an operation that the peer must acknowledge
	r, err := v.pool.useRequest(&RequestParams{Flags: OpNoImmediate})
	if err != nil {
		t.Fatal(err)
	}
	r.setEndpoint(v.ep)
	r.proto = flush{}
	v.ep.flushBegun()
	v.ep.fail(ucs.ErrConnectionReset)
	flush{}.completed(r, nil)
	if !r.Done() || r.Err() != v.ep.err {
		t.Fatalf("done: %v, %v; the endpoint: %v", r.Done(), r.Err(), v.ep.err)
	}
	r.Free()
}
