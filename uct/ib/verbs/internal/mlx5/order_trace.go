//go:build linux && mlx5trace

package mlx5

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/word"
)

// step is a store or a barrier of order.go.
type step struct {
	what   string
	record record // of "record"
	word   int
	bell   *uint64 // of "ring" and "flame"
	value  uint64  // as a number
}

// traced is told of each step before it is done.
var traced = func(step) {}

func setRecord(r record, k int, v uint32) {
	traced(step{what: "record", record: r, word: k, value: uint64(v)})
	word.StoreRelease32(&r[k&1], be32(v))
}

func ring(bell *uint64, v uint64) {
	traced(step{what: "ring", bell: bell, value: be64(v)})
	cpu.StoreDevice64(bell, v)
}

func flame(to, from *[8]uint64) {
	traced(step{what: "flame", bell: &to[0], value: be64(from[0])})
	cpu.CopyDevice64(to, from)
}

func toDevice()    { traced(step{what: "to device"}); cpu.ToDevice() }
func fromDevice()  { traced(step{what: "from device"}); cpu.FromDevice() }
func flushWrites() { traced(step{what: "flush"}); cpu.FlushWrites() }
