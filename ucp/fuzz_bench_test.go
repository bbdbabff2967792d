package ucp

import (
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
)

// rounds is a benchmark whose rounds clean up behind themselves, like tests.
type rounds struct {
	testing.TB
	cleanups []func()
}

func (r *rounds) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// over ends a round.
func (r *rounds) over() {
	for i := range r.cleanups {
		r.cleanups[len(r.cleanups)-1-i]()
	}
	r.cleanups = r.cleanups[:0]
}

// BenchmarkHandlers measures an execution of FuzzHandlers: how many there are in a
// second decides what a minute of it finds.
func BenchmarkHandlers(b *testing.B) {
	was := log.SetLogger(zap.NewNop())
	defer log.SetLogger(was)
	worker := newFuzzWorker(b)
	defer worker.end(b)
	r := &rounds{TB: b}
	list := seeds()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		worker.play(r, list[i%len(list)])
		r.over()
	}
}
