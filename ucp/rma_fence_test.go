package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/ucp/internal/datatype"
)

// TestFenceRunTwice: a fence waits for a put that is sent in pieces, and is run again afterwards.
// It must not forget the operations that were started after it: the next fence delays operations
// that would overtake them.
func TestFenceRunTwice(t *testing.T) {
	v := newTarget(t)
	const n = 4 * datatype.Piece
	mem := make([]byte, 2*n)
	m, err := v.ctx.MemMap(MemMapParams{Buffer: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	packed, err := m.PackRkey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := v.ep.UnpackRkey(packed)
	if err != nil {
		t.Fatal(err)
	}
	addr := m.Attr().Address
	src := make([]byte, n)
	for i := range src {
		src[i] = 1
	}
	if _, err := v.ep.Put(src, addr, key, nil); err != nil { // P1, in pieces
		t.Fatal(err)
	}
	if err := v.Fence(); err != nil { // F1: waits for P1
		t.Fatal(err)
	}
	r2, err := v.ep.Put(src, addr+n, key, nil) // P2 waits for F1
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; r2 != nil && !r2.Done() && mem[n] == 0 && i < 1000; i++ {
		v.Progress()
	}
	if err := v.Fence(); err != nil { // F2 must hold back P3 until P2 is done
		t.Fatal(err)
	}
	r3, err := v.ep.Put([]byte{9}, addr, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if mem[0] == 9 && mem[2*n-1] == 0 {
		t.Error("P3 has overtaken P2, which was started before the second fence")
	}
	for i := 0; i < 1000 && !(r2.Done() && r3.Done()); i++ {
		v.Progress()
	}
}

// TestKeyClosedWhileWaiting: a key that is closed too early fails the operations that have not
// begun, and no others.
func TestKeyClosedWhileWaiting(t *testing.T) {
	v := newTarget(t)
	mem := make([]byte, 4*datatype.Piece)
	m, err := v.ctx.MemMap(MemMapParams{Buffer: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	packed, _ := m.PackRkey()
	key, err := v.ep.UnpackRkey(packed)
	if err != nil {
		t.Fatal(err)
	}
	addr := m.Attr().Address
	start := func(n int) {
		req, err := v.ep.Put(make([]byte, n), addr, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Free()
	}
	start(4 * datatype.Piece)
	if err := v.Fence(); err != nil {
		t.Fatal(err)
	}
	start(100)
	start(100)
	key.Close()
	for range 100 {
		v.Progress()
	}
	if s := v.Stats(); s.Failed == 0 {
		t.Error("nothing has failed: the test tests nothing")
	}
	v.exchange()
}
