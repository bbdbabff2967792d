//go:build linux

package ucptest

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// testDropped checks that an operation whose request the program drops without Free completes and
// calls back once, and that what it needs is not garbage collected. This corresponds to
// ucp_request_release. Free does not, as it disables the callback.
func testDropped(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	const count, size = 20, 300_000
	var sends, recvs int
	start := func(i int) {
		src := bytes.Repeat([]byte{byte(i + 1)}, size)
		dst := make([]byte, size)
		tag := ucp.Tag(i)
		recv := func() {
			req, err := b.TagRecv(tag, ucp.FullMask, dst, &ucp.RequestParams{
				OnTagRecv: func(_ *ucp.Request, err error, info ucp.TagRecvInfo, _ any) {
					recvs++
					if err != nil || info != (ucp.TagRecvInfo{SenderTag: tag, Length: size}) || !bytes.Equal(dst, bytes.Repeat([]byte{byte(i + 1)}, size)) {
						t.Errorf("receive %d: %v, %+v, or other data", i, err, info)
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if req == nil {
				recvs++ // complete, so there is no callback
			}
		}
		send := func() {
			req, err := ep.TagSendSync(tag, src, &ucp.RequestParams{
				OnSend: func(_ *ucp.Request, err error, _ any) {
					if sends++; err != nil {
						t.Errorf("send %d: %v", i, err)
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if req == nil {
				sends++
			}
		}
		if i%2 == 0 {
			recv()
			send()
		} else {
			send()
			recv()
		}
	}
	for i := range count {
		start(i)
		if i%5 == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	r.until("all callbacks", func() bool { return sends == count && recvs == count })
	runtime.GC()
	r.settle()
	if sends != count || recvs != count {
		t.Errorf("%d sends and %d receives of %d told", sends, recvs, count)
	}
}
