//go:build linux

package ucptest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestMultiActiveLeft checks calls that are left to the goroutine that owns the worker: active
// messages are sent with the contents that they had when the call returned, as far as the call
// copies them.
func TestMultiActiveLeft(t *testing.T) {
	r := newRig(t, byName(t, "self").shared())
	a, _ := r.activePair()
	ep := a.connect(a)
	sink := a.sink(1)
	most := a.Attr().MaxAMHeader
	var headers [][]byte
	var reqs []*ucp.Request
	_, letGo := a.held(ep)
	for k, n := range []int{0, 1, 50, 64, 65, 2000} {
		for _, size := range []int{0, 8, 5000, 100_000} {
			src := ucttest.Pattern(size, uint64(k))
			header := ucttest.Pattern(n, uint64(size))
			headers = append(headers, bytes.Clone(header))
			p := flagged(ucp.AMSendCopyHeader | ucp.AMSendReply)
			if k%2 == 0 {
				p = flagged(ucp.AMSendCopyHeader)
			}
			req := r.started(ep.AMSend(1, header, src, p))
			clear(header) // may be changed, as it was copied
			reqs = append(reqs, req)
		}
	}
	brief := []byte("some bytes, which are copied")
	if req, err := ep.AMSend(1, nil, brief, nil); req != nil || err != nil {
		t.Errorf("a send of some bytes: %v, %v", req, err)
	}
	clear(brief)
	if req, err := ep.AMSend(1, make([]byte, most+1), nil, nil); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a header that is too long: %v, %v", req, err)
	}
	letGo()
	for _, req := range reqs {
		r.must(req, nil)
	}
	r.until("messages", func() bool { return len(sink.got) == len(headers)+1 })
	found := make(map[string]int)
	for _, g := range sink.got {
		r.until("the data", func() bool { return g.done })
		found[fmt.Sprintf("%x/%d", g.header, len(g.data))]++
		if len(g.header) == 0 && len(g.data) == 28 && string(g.data) != "some bytes, which are copied" {
			t.Errorf("a send of some bytes: %q", g.data)
		}
	}
	for k, h := range headers {
		size := []int{0, 8, 5000, 100_000}[k%4]
		if found[fmt.Sprintf("%x/%d", h, size)] == 0 {
			t.Errorf("the message with %d bytes behind a header of %d is not there as it was", size, len(h))
		}
	}
}
