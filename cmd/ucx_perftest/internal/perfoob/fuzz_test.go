//go:build linux

package perfoob

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

func FuzzParams(f *testing.F) {
	for _, file := range []string{"params-1.13.1.txt", "params-1.22.0.txt"} {
		for _, c := range captures(f, file) {
			f.Add(c.bytes)
		}
	}
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		p, r, err := readParams(bytes.NewReader(b))
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("accepted what is not valid: %v", err)
		}
		again, _, err := readParams(bytes.NewReader(p.Append(nil, r)))
		if err != nil {
			t.Fatalf("own encoding refused: %v", err)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("after a round trip (-want +got):\n%s", diff)
		}
	})
}

func FuzzUCPInfo(f *testing.F) {
	for _, c := range captures(f, "info.txt") {
		f.Add(c.bytes)
	}
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		for n := range 3 {
			list, err := ParseUCPInfos(b, n)
			if err != nil {
				continue
			}
			want := bytes.Clone(b)
			var got []byte
			for _, i := range list {
				clear(want[len(got)+16 : len(got)+24])
				got = i.Append(got)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d workers encoded %x, want %x", n, got, want)
			}
		}
	})
}

func FuzzUCTInfo(f *testing.F) {
	for _, c := range captures(f, "info.txt") {
		f.Add(c.bytes)
	}
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		i, err := ParseUCTInfo(b)
		if err != nil {
			return
		}
		if got := i.Append(nil); !bytes.Equal(got, b) {
			t.Fatalf("encoded %x, want %x", got, b)
		}
	})
}

func FuzzVector(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		const limit = 64
		if v, err := readVector(bytes.NewReader(b), limit); err == nil && len(v) > limit {
			t.Fatalf("%d bytes, limit %d", len(v), limit)
		}
	})
}
