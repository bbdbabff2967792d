package ucp

import (
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
)

// rounds is a benchmark in which each round runs its cleanups at its end, like a test.
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

// BenchmarkHandlers measures an execution of FuzzHandlers. The number of executions in
// a second decides how much a minute of fuzzing finds.
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
