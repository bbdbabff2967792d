//go:build linux

package tcp

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestCopyUnsent: after CopyUnsent, the memory of a partly written zero-copy message may be
// overwritten, and the message arrives unchanged. Its completion comes no earlier than without the
// copy.
func TestCopyUnsent(t *testing.T) {
	h := newHost(t, "", "SNDBUF=16k")
	ep, p := narrow(t, h)
	ep.CopyUnsent() // with nothing to copy
	var want []byte
	var d *done
	first, second := bytes.Repeat([]byte("1"), 3000), bytes.Repeat([]byte("2"), 5000)
	for {
		d = newDone()
		err := ep.AMZcopy(3, text("h"), []uct.IOV{{Data: first}, {}, {Data: second}}, 0, &d.comp)
		if err != nil && err != ucs.InProgress {
			t.Fatal(err)
		}
		want = append(want, am(3, "h"+string(first)+string(second))...)
		if err != nil {
			break
		}
		h.w.Progress() // each is written by itself
	}
	for range 2 { // the second time there is nothing to copy
		ep.CopyUnsent()
	}
	clear(first)
	clear(second)
	if d.n != 0 {
		t.Error("it is done before it has left")
	}
	if err := ep.AMZcopy(3, text("h"), []uct.IOV{{Data: first}}, 0, nil); err != ucs.ErrNoResource {
		t.Errorf("another one behind it: %v", err)
	}
	if got := p.recv(len(want)); !bytes.Equal(got, want) {
		t.Error("other bytes have arrived")
	}
	until(t, "the completion", func() bool { return d.n == 1 }, h)
	if ep.conn.zc.left != 0 || ep.conn.zc.copied {
		t.Error("something is left")
	}
}
