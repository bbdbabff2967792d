//go:build linux && !mlx5trace

package mlx5

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/word"
)

// Every store that a device looks at for itself, and the barriers around them, as in
// rdma-core's util/udma_barrier.h.

// setRecord stores one word of a record.
func setRecord(r record, k int, v uint32) { word.StoreRelease32(&r[k&1], be32(v)) }

// ring stores to a register: v as it is to lie there.
func ring(bell *uint64, v uint64) { cpu.StoreDevice64(bell, v) }

// flame copies a block to registers.
func flame(to, from *[8]uint64) { cpu.CopyDevice64(to, from) }

func toDevice()    { cpu.ToDevice() }
func fromDevice()  { cpu.FromDevice() }
func flushWrites() { cpu.FlushWrites() }
