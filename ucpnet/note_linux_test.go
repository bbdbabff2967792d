package ucpnet

import (
	"io"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestStrangeNotes checks that malformed or unexpected notes of a peer affect its own connection
// only.
func TestStrangeNotes(t *testing.T) {
	overAll(t, func(t *testing.T, a, b *Conn) {
		for _, h := range [][]byte{nil, {1}, make([]byte, 100), {0xF0, 1, 2, 3, 4, 5, 6, 7, 8}} {
			if err := a.ep.AMSendWait(t.Context(), MessageID, h, nil, ucp.AMSendReply); err != nil {
				t.Fatal(err)
			}
			if err := a.ep.AMSendWait(t.Context(), MessageID, h, []byte("data"), 0); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 * marks {
			a.sendNote(a.ep, noteMark|noteRead, 1<<63)
		}
		if _, err := a.Write([]byte("still")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(b, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		a.sendNote(a.ep, noteEnd, 0) // ahead of the data
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("Read = %d, %v", n, err)
		}
	})
}
