//go:build linux && mlx5trace

package mlx5

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/word"
)

// step describes a call of a function of order.go, a store or a barrier, to a test.
type step struct {
	what   string
	record record  // for the step "record": the doorbell record
	word   int     // for the step "record": index of the word
	bell   *uint64 // for the steps "ring" and "flame": the register
	value  uint64  // the stored value, in native byte order
}

// traced is called with each step before the step is done.
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
