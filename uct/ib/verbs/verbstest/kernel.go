//go:build linux

package verbstest

import (
	"encoding/binary"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// Limits of the device.
const (
	maxQPWR     = 1 << 14
	maxCQE      = 32767
	maxSGE      = 32
	maxSRQSGE   = 27
	maxRdAtomic = 128
	maxMsgSize  = 8 << 20
	gidTable    = 16
	portCount   = 1
	mtuEnum     = 5 // 4096 bytes
	mtuBytes    = 4096
	vectors     = 2
)

// Kernel is one device, rxe0, with one port. Any goroutine may use it.
type Kernel struct {
	mu      sync.Mutex
	gids    [gidTable][16]byte // a zero one is empty
	active  bool               // the port is
	removed bool
	files   map[*file]bool
	qps     map[uint32]*qp // by number
	mrs     map[uint32]*mr // by index of the keys
	mws     map[uint32]*mw // by index of the key
	ahs     map[uint32]*ah // by number
	nextQPN uint32
	nextKey uint32
	nextAH  uint32
	nextOff uint64 // of a mapping
	faults  Errnos
}

// New returns a device with the GIDs that rdma_rxe has on lo: fe80::200:ff:fe00:0,
// ::ffff:127.0.0.1 and ::1.
func New() *Kernel {
	k := &Kernel{
		active: true, files: make(map[*file]bool), qps: make(map[uint32]*qp), mrs: make(map[uint32]*mr), mws: make(map[uint32]*mw),
		ahs: make(map[uint32]*ah), nextQPN: 0x11, nextKey: 2, nextAH: 1, nextOff: 0x1000,
	}
	copy(k.gids[0][:], []byte{0xfe, 0x80, 8: 2, 11: 0xff, 12: 0xfe, 15: 0})
	copy(k.gids[1][:], []byte{10: 0xff, 11: 0xff, 12: 127, 15: 1})
	copy(k.gids[2][:], []byte{15: 1})
	return k
}

// Open opens the device once more.
func (k *Kernel) Open() uverbs.File { return uverbs.Traced(k.open()) }

func (k *Kernel) open() *file {
	f := &file{k: k, objects: make(map[uint32]any), regions: make(map[uint64]*ring)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[f] = true
	return f
}

// Driver is the number of the driver.
const Driver = abi.RDMA_DRIVER_RXE

// FailCall makes the call of a name, as in the table of package abi, fail once
// after it has been let through skip times. The name "mmap" is that of mappings,
// "write" of doorbells.
func (k *Kernel) FailCall(name string, skip int, errno syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults.Fail(name, skip, errno)
}

// Progress tries everything again that waits.
func (k *Kernel) Progress() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run()
}

// SetPort takes the port up or down and sends the event to every context. What
// waits for a peer is tried again when it is up.
func (k *Kernel) SetPort(active bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = active
	event := uint32(eventPortErr)
	if active {
		event = eventPortActive
	}
	for f := range k.files {
		f.event(event, 1)
	}
	k.run()
}

// Remove takes the device from all who have it open, as drivers do that have
// disassociate_ucontext, which rdma_rxe has not: an event says so, objects end without
// completions, and every call fails with EIO.
func (k *Kernel) Remove() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed = true
	for f := range k.files {
		f.destroyAll()
		f.event(eventDeviceFatal, 0)
	}
}

// SetGID changes an entry of the port's table; a zero one is empty.
func (k *Kernel) SetGID(index int, gid [16]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gids[index] = gid
	for f := range k.files {
		f.event(eventGIDChange, 1)
	}
}

// Objects counts what exists, over all contexts.
func (k *Kernel) Objects() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for f := range k.files {
		n += len(f.objects)
	}
	return n
}

// Events; enum ib_event_type, ib_verbs.h.
const (
	eventCQErr       = 0
	eventQPReqErr    = 2
	eventQPAccessErr = 3
	eventSQDrained   = 5
	eventDeviceFatal = 8
	eventPortActive  = 9
	eventPortErr     = 10
	eventSRQLimit    = 15
	eventGIDChange   = 18
)

// hasGID reports whether the port has a GID.
func (k *Kernel) hasGID(gid [16]byte) bool {
	if gid == ([16]byte{}) {
		return false
	}
	for _, g := range k.gids {
		if g == gid {
			return true
		}
	}
	return false
}

// gidEntry is an entry of the port's table; all are of RoCE v2.
func (k *Kernel) gidEntry(index uint32) (abi.GidEntry, bool) {
	if index >= gidTable || k.gids[index] == ([16]byte{}) {
		return abi.GidEntry{}, false
	}
	return abi.GidEntry{Gid: k.gids[index], GidIndex: index, PortNum: 1, GidType: abi.IB_UVERBS_GID_TYPE_ROCE_V2, NetdevIfindex: 1}, true
}

func u32(b []byte) uint32       { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64       { return binary.NativeEndian.Uint64(b) }
func putU32(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }
func putU64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }
