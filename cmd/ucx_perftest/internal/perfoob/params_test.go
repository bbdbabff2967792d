//go:build linux

package perfoob

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
)

func TestParseRelease(t *testing.T) {
	for s, want := range map[string]Release{
		"1.13": Release113, "1.13.1": Release113, "1.22": Release122, "1.22.0": Release122,
	} {
		if got, err := ParseRelease(s); err != nil || got != want {
			t.Errorf("ParseRelease(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "1", "1.2", "1.222", "1.130", "2.22", "v1.22"} {
		if got, err := ParseRelease(s); err == nil {
			t.Errorf("ParseRelease(%q) = %v, want an error", s, got)
		}
	}
}

func TestTestIDs(t *testing.T) {
	// Indexes in C's tables.
	for name, ids := range map[string][numReleases]int32{
		"am_lat": {0, 0}, "put_bw": {8, 8}, "add_mr": {9, 10}, "tag_lat": {10, 11}, "tag_bw": {11, 12},
		"tag_sync_lat": {12, 13}, "tag_sync_bw": {13, 14}, "ucp_get": {16, 17}, "ucp_am_bw": {24, 25},
	} {
		for r, id := range ids {
			if got := TestByName(name).id(Release(r)); got != id {
				t.Errorf("%s in %v has id %d, want %d", name, Release(r), got, id)
			}
			if got := testByID(id, Release(r)); got == nil || got.Name != name {
				t.Errorf("id %d of %v is %v, want %s", id, Release(r), got, name)
			}
		}
	}
	for _, id := range []int32{-1, 26, math.MaxInt32, math.MinInt32} {
		if got := testByID(id, Release122); got != nil {
			t.Errorf("id %d is %s, want none", id, got.Name)
		}
	}
}

// TestTestIDNotTrusted: a test id that contradicts the other fields is ignored.
func TestTestIDNotTrusted(t *testing.T) {
	p := DefaultParams()
	p.Test = TestByName("tag_bw")
	for _, id := range []int32{-1, 0, 1000, math.MinInt32} {
		b := p.Append(nil, Release122)
		binary.LittleEndian.PutUint32(b[layouts[Release122].testID:], uint32(id))
		got, _, err := readParams(bytes.NewReader(b))
		if err != nil || got.Test != p.Test {
			t.Errorf("id %d: test %v, %v, want %s", id, got.Test, err, p.Test.Name)
		}
	}
}

func TestHostileParams(t *testing.T) {
	huge := uint64(math.MaxUint64)
	tests := []struct {
		name string
		off  func(l *layout) int
		size int
		val  uint64
	}{
		{"api", func(*layout) int { return 0 }, 4, 7},
		{"command", func(*layout) int { return 4 }, 4, 99},
		{"type", func(*layout) int { return 8 }, 4, 3},
		{"thread mode", func(*layout) int { return 12 }, 4, 3},
		{"no threads", func(*layout) int { return 16 }, 4, 0},
		{"many threads", func(*layout) int { return 16 }, 4, math.MaxUint32},
		{"async mode", func(*layout) int { return 20 }, 4, 4},
		{"wait mode", func(*layout) int { return 24 }, 4, 4},
		{"memory type", func(*layout) int { return 28 }, 4, 256},
		{"size count", func(l *layout) int { return l.sizeCount }, 8, huge},
		{"no sizes", func(l *layout) int { return l.sizeCount }, 8, 0},
		{"stride", func(l *layout) int { return l.stride }, 8, huge},
		{"stride too small", func(l *layout) int { return l.stride }, 8, 4},
		{"window", func(l *layout) int { return l.window }, 4, math.MaxUint32},
		{"percentile", func(l *layout) int { return l.percentile }, 8, math.Float64bits(101)},
		{"percentile NaN", func(l *layout) int { return l.percentile }, 8, math.Float64bits(math.NaN())},
		{"warm-up time", func(l *layout) int { return l.warmupTime }, 8, math.Float64bits(-1)},
		{"layout", func(l *layout) int { return l.layout }, 4, 4},
		{"header", func(l *layout) int { return l.uctHeader }, 8, huge},
		{"datatype", func(l *layout) int { return l.recvType }, 4, 2},
		{"size", func(l *layout) int { return l.size }, 8, huge},
		{"size above the limit", func(l *layout) int { return l.size }, 8, MaxMessage + 1},
	}
	for r := Release(0); r < numReleases; r++ {
		for _, tt := range tests {
			t.Run(r.String()+" "+tt.name, func(t *testing.T) {
				p := DefaultParams()
				p.Test = TestByName("tag_lat")
				b := p.Append(nil, r)
				off := tt.off(&layouts[r])
				if tt.size == 4 {
					binary.LittleEndian.PutUint32(b[off:], uint32(tt.val))
				} else {
					binary.LittleEndian.PutUint64(b[off:], tt.val)
				}
				_, _, err := readParams(bytes.NewReader(b))
				if !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("got %v, want %v", err, ucs.ErrInvalidParam)
				}
			})
		}
	}
}

// TestFCWindow checks the permitted windows of tests with and without flow control.
func TestFCWindow(t *testing.T) {
	for _, tt := range []struct {
		test   string
		window uint32
		want   error
	}{
		{"am_bw", 0, ucs.ErrInvalidParam}, {"am_bw", 1, nil}, {"am_bw", 127, nil}, {"am_bw", 128, ucs.ErrInvalidParam},
		{"am_lat", 0, nil}, {"am_lat", 128, ucs.ErrInvalidParam},
		{"put_bw", 0, nil}, {"put_bw", math.MaxUint32, nil},
		{"tag_bw", 0, nil}, {"tag_bw", 128, nil}, {"ucp_am_bw", 1 << 20, nil},
	} {
		p := DefaultParams()
		p.Test, p.FCWindow = TestByName(tt.test), tt.window
		for r := Release(0); r < numReleases; r++ {
			got, _, err := readParams(bytes.NewReader(p.Append(nil, r)))
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("%s with a window of %d from %v: %v, want %v", tt.test, tt.window, r, err, tt.want)
			}
			if err == nil && got.FCWindow != tt.window {
				t.Errorf("%s with a window of %d from %v has one of %d", tt.test, tt.window, r, got.FCWindow)
			}
		}
	}
}

// TestAcceleratedIsPassedOn: fields that only accelerators use are decoded and encoded unchanged.
func TestAcceleratedIsPassedOn(t *testing.T) {
	p := DefaultParams()
	p.Test = TestByName("tag_lat")
	p.Accelerated = Accelerated{Level: LevelGrid, Channels: ChannelsRandom, Seed: 1 << 40, Blocks: 3, Window: 9}
	got, _, err := readParams(bytes.NewReader(p.Append(nil, Release122)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

// TestAcceleratorIsNamed: a client that asks for an accelerator gets an error that names it.
func TestAcceleratorIsNamed(t *testing.T) {
	for _, tt := range []struct {
		send, recv uint32
		want       string
		status     error
	}{
		{1, 1, "cuda", ucs.ErrUnsupported}, {noMemory, 3, "rocm", ucs.ErrUnsupported}, {0, 1, "host", ucs.ErrUnsupported},
		{1, 99, "", ucs.ErrInvalidParam},
	} {
		p := DefaultParams()
		p.Test = TestByName("ucp_put_lat")
		b := p.Append(nil, Release122)
		binary.LittleEndian.PutUint32(b[devices122:], tt.send)
		binary.LittleEndian.PutUint32(b[devices122+8:], tt.recv)
		_, _, err := readParams(bytes.NewReader(b))
		if !errors.Is(err, tt.status) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("accelerators %d and %d: %v, want %v that names %q", tt.send, tt.recv, err, tt.status, tt.want)
		}
	}
}

func TestTruncatedParams(t *testing.T) {
	for r := Release(0); r < numReleases; r++ {
		p := DefaultParams()
		p.Test = TestByName("tag_lat")
		b := p.Append(nil, r)
		for n := range b {
			if _, _, err := readParams(bytes.NewReader(b[:n])); !errors.Is(err, ucs.ErrConnectionReset) {
				t.Fatalf("%v cut to %d bytes: %v, want %v", r, n, err, ucs.ErrConnectionReset)
			}
		}
	}
}

func TestDetectNeither(t *testing.T) {
	for name, b := range map[string][]byte{
		"zeros": make([]byte, 264),
		"ones":  bytes.Repeat([]byte{0xff}, 264),
		"http":  append([]byte("GET / HTTP/1.1\r\n"), make([]byte, 264)...),
	} {
		if r, err := DetectRelease(b); err == nil {
			t.Errorf("%s: %v, want an error", name, r)
		}
	}
}

func TestNamesAreCut(t *testing.T) {
	p := DefaultParams()
	p.Test = TestByName("am_lat")
	p.Device = "a-device-name-that-is-longer-than-the-structure"
	p.Transport = "long-transport"
	got, _, err := readParams(bytes.NewReader(p.Append(nil, Release122)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a-device-name-that-is-longer-th", "long-tran"}, []string{got.Device, got.Transport}); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestExtent(t *testing.T) {
	p := Params{Sizes: []int{10, 20, 30}}
	if p.MessageSize() != 60 || p.Extent() != 60 {
		t.Errorf("size %d, extent %d, want 60 and 60", p.MessageSize(), p.Extent())
	}
	p.Stride = 100
	if p.MessageSize() != 60 || p.Extent() != 230 {
		t.Errorf("size %d, extent %d, want 60 and 230", p.MessageSize(), p.Extent())
	}
}
