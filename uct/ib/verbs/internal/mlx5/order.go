//go:build linux && !mlx5trace

package mlx5

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/word"
)

// All stores whose order a device sees, and the barriers around them, as in rdma-core's
// util/udma_barrier.h.

// setRecord stores v, in big-endian order, to word k of a doorbell record.
func setRecord(r record, k int, v uint32) { word.StoreRelease32(&r[k&1], be32(v)) }

// ring stores v to a doorbell register; v is already in the byte order of the device.
func ring(bell *uint64, v uint64) { cpu.StoreDevice64(bell, v) }

// flame copies a block of a send entry, 64 bytes, to a BlueFlame register.
func flame(to, from *[8]uint64) { cpu.CopyDevice64(to, from) }

func toDevice()    { cpu.ToDevice() }
func fromDevice()  { cpu.FromDevice() }
func flushWrites() { cpu.FlushWrites() }
