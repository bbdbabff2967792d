//go:build amd64 || arm64

package cpu

// The barriers of drivers in user space, as rdma-core has them
// (util/udma_barrier.h). Calling any of them keeps the compiler from moving loads
// and stores across, too.

// ToDevice makes stores to memory visible to a device before a later store that
// starts it: the ring of a doorbell, or a doorbell record in memory.
// udma_to_device_barrier and udma_ordering_write_barrier.
//
//go:noescape
func ToDevice()

// FromDevice stands between a load that sees what a device wrote last, such as the
// owner of a completion, and the loads of what it wrote before.
// udma_from_device_barrier.
//
//go:noescape
func FromDevice()

// FlushWrites sends stores to a device's registers on their way, which the
// processor may have combined or kept. mmio_flush_writes and mmio_wc_start.
//
//go:noescape
func FlushWrites()

// Pause is for loops that wait for another processor: it lets the other thread of
// the core work, and spares power.
//
//go:noescape
func Pause()
