package self

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// BenchmarkAM measures one message from the call to the end of its handler.
func BenchmarkAM(b *testing.B) {
	l := newLoop(b)
	got := 0
	l.Handle(b, 1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error { got += len(data); return nil })
	for _, size := range []int{0, 8, 64, 1024, 8184} {
		payload := make([]byte, size)
		b.Run(fmt.Sprintf("short/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := l.ep.AMShort(1, 2, payload, 0, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	p := &ucttest.Packer{Data: make([]byte, 8)}
	b.Run("bcopy/8", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.ep.AMBcopy(1, p, 0, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkProgress measures a round of progress with nothing to do.
func BenchmarkProgress(b *testing.B) {
	l := newLoop(b)
	for b.Loop() {
		l.Worker.Progress()
	}
}

// BenchmarkRemote measures access to registered memory.
func BenchmarkRemote(b *testing.B) {
	l := newLoop(b)
	m := l.Expose(b, make([]byte, 1<<20), uct.AccessAll)
	key := l.Key(b, m)
	for _, size := range []int{8, 1 << 20} {
		buf := make([]byte, size)
		b.Run(fmt.Sprintf("put/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := l.ep.(uct.RMA).PutShort(buf, m.Addr, key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("fetch-add", func(b *testing.B) {
		var old uint64
		for b.Loop() {
			if err := l.ep.(uct.Atomic).Atomic64Fetch(uct.AtomicAdd, 1, &old, m.Addr, key, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
