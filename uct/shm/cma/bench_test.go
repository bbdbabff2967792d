//go:build linux

package cma

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestNoAllocations runs operations of all kinds and sizes.
func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	h := open(t)
	var ep uct.Endpoint = self(t, h)
	const size = 1 << 20
	local, remote := make([]byte, size), make([]byte, size)
	c := ucttest.NewCompletion(0)
	for _, n := range []int{8, inlineMax, inlineMax + 1, size} {
		iov := iovOf(local[:n/2], local[n/2:n])
		once := func() {
			c.Count += 3
			for _, err := range []error{
				ep.(uct.RMA).PutZcopy(iov, addressOf(remote), nil, &c.Completion),
				ep.(uct.RMA).GetZcopy(iov, addressOf(remote), nil, &c.Completion),
				ep.Flush(uct.FlushRemote, &c.Completion),
			} {
				if err == nil {
					c.Count--
				} else if err != ucs.InProgress {
					t.Fatal(err)
				}
			}
			for c.Count > 0 {
				h.Worker.Progress()
			}
			h.Worker.Progress()
		}
		once()
		if n := testing.AllocsPerRun(20, once); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { ep.Check(nil) }); n != 0 {
		t.Errorf("%v allocations in Check", n)
	}
}

// BenchmarkZcopy copies to and from memory of another process.
func BenchmarkZcopy(b *testing.B) {
	h := open(b)
	p := newProcess(b, "usual", 0)
	var ep uct.RMA = p.connect(b, h)
	c := ucttest.NewCompletion(0)
	for _, size := range []int{8, 4096, 64 << 10, 1 << 20} {
		iov := iovOf(make([]byte, size))
		for name, start := range map[string]func([]uct.IOV, uint64, *uct.Rkey, *uct.Completion) error{
			"put": ep.PutZcopy, "get": ep.GetZcopy,
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					c.Count++
					switch err := start(iov, p.mem, nil, &c.Completion); err {
					case nil:
						c.Count--
					case ucs.InProgress:
						for c.Count > 0 {
							h.Worker.Progress()
						}
					default:
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkProgress measures a round of progress with nothing to do.
func BenchmarkProgress(b *testing.B) {
	h := open(b)
	for b.Loop() {
		h.Worker.Progress()
	}
}
