package proto

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

// TestEpClose checks that only messages of the right length and of a known kind are accepted.
func TestEpClose(t *testing.T) {
	for _, k := range []EpCloseKind{EpReleased, EpRemoved} {
		m := EpClose{Kind: k, EpID: 1, From: 2}
		b := m.Append(nil)
		if got, err := ParseEpClose(b); err != nil || got != m || len(b) != EpCloseSize {
			t.Errorf("%+v becomes %+v in %d bytes: %v", m, got, len(b), err)
		}
		for n := range len(b) {
			if _, err := ParseEpClose(b[:n]); err == nil {
				t.Errorf("%d bytes are taken for a message", n)
			}
		}
		if _, err := ParseEpClose(append(b, 0)); err == nil {
			t.Error("a longer message is taken for one")
		}
		b[EpCloseSize-1] = 3
		if _, err := ParseEpClose(b); err == nil {
			t.Error("an unknown kind is taken for a message")
		}
	}
}

// TestEndpointIDMark checks that ids of C UCX have no mark: pointers are even, other ids count from
// 1.
func TestEndpointIDMark(t *testing.T) {
	for id, want := range map[EndpointID]bool{
		EndpointIDMark<<56 | 1: true, EndpointIDMark<<56 | 2: false, 3: false, 0x7f7150653000: false, 0: false,
	} {
		if id.Marked() != want {
			t.Errorf("id %#x: %v", uint64(id), !want)
		}
	}
}

func FuzzEpClose(f *testing.F) {
	f.Add(EpClose{Kind: EpReleased, EpID: 1, From: 2}.Append(nil))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		if m, err := ParseEpClose(b); err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Errorf("% x becomes % x", b, m.Append(nil))
		}
	})
}
