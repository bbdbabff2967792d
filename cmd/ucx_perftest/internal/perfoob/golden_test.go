//go:build linux

package perfoob

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
)

// capture is one entry of a file in testdata/wire.
type capture struct {
	about string
	bytes []byte
}

// captures parses a file of testdata/wire: lines that begin with '#' describe the bytes on the next
// line.
func captures(tb testing.TB, file string) []capture {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "wire", file))
	if err != nil {
		tb.Fatal(err)
	}
	var list []capture
	about := ""
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			about = rest
			continue
		}
		if line == "" {
			continue
		}
		b, err := hex.DecodeString(line)
		if err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		list = append(list, capture{about, b})
	}
	return list
}

func TestGoldenParams(t *testing.T) {
	modify := func(f func(p *Params)) Params {
		p := DefaultParams()
		f(&p)
		return p
	}
	// One for each capture, with the values of release 1.22.
	want := []Params{
		modify(func(p *Params) { p.Test = TestByName("tag_lat") }),
		modify(func(p *Params) {
			p.Test = TestByName("tag_bw")
			p.Sizes, p.Stride = []int{16, 48, 4096}, 4096
			p.Iters, p.WarmupIters, p.Window = 1000, 10, 7
			p.Flags = FlagTagWildcard | FlagTagUnexpProbe | FlagWakeup | FlagErrHandling
			p.ThreadMode, p.WaitMode = ucs.ThreadModeMulti, WaitSleep
			p.Percentile, p.SendType = 99.5, IOV
		}),
		modify(func(p *Params) {
			p.Test = TestByName("tag_sync_bw")
			p.Sizes, p.Iters, p.WarmupIters = []int{4 << 20}, 50, 5
		}),
		modify(func(p *Params) {
			p.Test = TestByName("am_bw")
			p.Device, p.Transport, p.Layout = "lo", "tcp", Zcopy
			p.Sizes, p.UCTHeader, p.UCPHeader, p.FCWindow = []int{1024}, 16, 16, 64
		}),
		modify(func(p *Params) {
			p.Test = TestByName("put_lat")
			p.Device, p.Transport, p.Layout, p.Sizes = "memory", "self", Bcopy, []int{128}
		}),
		modify(func(p *Params) {}),
	}
	for r, file := range []string{"params-1.13.1.txt", "params-1.22.0.txt"} {
		list := captures(t, file)
		if len(list) != len(want) {
			t.Fatalf("%s has %d captures, want %d", file, len(list), len(want))
		}
		for i, c := range list {
			t.Run(c.about, func(t *testing.T) {
				want := want[i]
				if Release(r) == Release113 {
					// Release 1.13 has another default and lacks these options.
					if want.ThreadMode == ucs.ThreadModeSerialized {
						want.ThreadMode = ucs.ThreadModeSingle
					}
					want.Flags &^= FlagWakeup
					want.Accelerated = Accelerated{}
				}
				got, release, err := readParams(bytes.NewReader(c.bytes))
				if err != nil {
					t.Fatal(err)
				}
				got.Accelerated.Seed = 0 // random
				if release != Release(r) {
					t.Errorf("release %v, want %v", release, Release(r))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("parameters (-want +got):\n%s", diff)
				}
				again := got.Append(nil, release)
				if diff := cmp.Diff(hex.Dump(withoutLeaks(c.bytes, release)), hex.Dump(again)); diff != "" {
					t.Errorf("encoding (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// withoutLeaks clears bytes that mean nothing to the peer: a pointer and, in 1.22, a random number
// for accelerator tests.
func withoutLeaks(b []byte, r Release) []byte {
	b = bytes.Clone(b)
	pointer := layouts[r].sizeCount - 8
	clear(b[pointer : pointer+8])
	if r == Release122 {
		clear(b[160:168])
	}
	return b
}

func TestGoldenInfo(t *testing.T) {
	for _, c := range captures(t, "info.txt") {
		t.Run(c.about, func(t *testing.T) {
			want := bytes.Clone(c.bytes)
			var again []byte
			switch {
			case strings.Contains(c.about, "UCP:"):
				n := 1
				if strings.Contains(c.about, "-T 2") {
					n = 2
				}
				list, err := ParseUCPInfos(c.bytes, n)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range list {
					if rkey := strings.Contains(c.about, "put"); rkey != (len(i.Rkey) > 0) {
						t.Errorf("key of %d bytes", len(i.Rkey))
					}
					clear(want[len(again)+16 : len(again)+24]) // not initialised by C
					again = i.Append(again)
				}
			default:
				i, err := ParseUCTInfo(c.bytes)
				if err != nil {
					t.Fatal(err)
				}
				if len(i.IfaceAddr) != 2 || len(i.EpAddr) != 10 {
					t.Errorf("iface address of %d and endpoint address of %d bytes, want 2 and 10", len(i.IfaceAddr), len(i.EpAddr))
				}
				again = i.Append(nil)
			}
			if diff := cmp.Diff(hex.Dump(want), hex.Dump(again)); diff != "" {
				t.Errorf("encoding (-want +got):\n%s", diff)
			}
		})
	}
}
