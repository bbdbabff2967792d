//go:build linux

package verbstest

import (
	"slices"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Kernel is one simulated device with its driver in the kernel. Any goroutine may use it.
type Kernel struct {
	net    *Fabric
	cfg    Config
	kind   deviceKind
	number int // index in the network, from 0
	// The fields below are under net.mu.
	ports   []*port
	removed bool
	files   []*file        // in the order of opening
	qps     map[uint32]*qp // by number
	order   []*qp          // all queue pairs in the order of creation
	mrs     map[uint32]*mr // by index, the upper 24 bits of the keys
	mws     map[uint32]*mw // by index, the upper 24 bits of the key
	ahs     map[uint32]*ah // by number
	nextQPN uint32
	nextKey uint32
	nextAH  uint32
	faults  Errnos
	srqs    int       // number of shared receive queues
	broken  []string  // rules that programs have broken
	watch   MLX5Watch // nil for none
	resolve func(from, to [16]byte) syscall.Errno

	pinned, pinnedMost int64  // bytes pinned now, and the maximum so far
	notReady           uint64 // RNR NAKs that senders on the device got
}

// New returns a device in a network of its own. Its name is rxe0, Config.Endless is set, and its
// port has the GIDs that rdma_rxe has on lo: fe80::200:ff:fe00:0, ::ffff:127.0.0.1 and ::1.
func New() *Kernel { return NewFabric().Add(Config{Ports: []Port{loopback()}, Endless: true}) }

// Name returns the name of the device.
func (k *Kernel) Name() string { return k.cfg.Name }

// ABI returns the ABI version of the device's driver.
func (k *Kernel) ABI() int {
	_, version := k.kind.driver()
	return version
}

// Config returns the configuration of the device with the defaults filled in, and with the current
// state of its ports.
func (k *Kernel) Config() Config {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	c := k.cfg
	c.Ports = nil
	for _, p := range k.ports {
		one := p.Port
		one.GIDs, one.PKeys, one.Down = slices.Clone(one.GIDs), slices.Clone(one.PKeys), !p.active
		c.Ports = append(c.Ports, one)
	}
	return c
}

// Fabric returns the network of the device.
func (k *Kernel) Fabric() *Fabric { return k.net }

// Open opens the device. It may be open any number of times.
func (k *Kernel) Open() uverbs.File { return uverbs.Traced(k.open()) }

func (k *Kernel) open() *file {
	return k.openIn(nil)
}

// openIn opens the device for a program whose memory is s; nil is this process.
func (k *Kernel) openIn(s Space) *file {
	f := &file{k: k, space: s, objects: make(map[uint32]any), eventsSent: make(map[subject]uint32), channels: make(map[int]*eventPipe)}
	f.drv = k.kind.open(f)
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.files = append(k.files, f)
	f.updateQuiet()
	k.net.wakeServe()
	return f
}

// FailCall makes the call of the given name fail once, after skip successful calls. The names are
// those of the table in package abi; "mmap" stands for mappings, "write" for doorbells.
func (k *Kernel) FailCall(name string, skip int, errno syscall.Errno) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.faults.Fail(name, skip, errno)
	k.updateQuiet()
}

// SetPort sets the link of the first port up or down, as SetLink.
func (k *Kernel) SetPort(active bool) { k.SetLink(1, active) }

// SetLink sets the link of a port, counted from 1, up or down and sends the event to every context
// of the device. The ports at the other end get no event. Work requests that wait for a peer are
// retried.
func (k *Kernel) SetLink(num int, active bool) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.ports[num-1].active = active
	k.net.topologyVersion++
	event := uint32(eventPortErr)
	if active {
		event = eventPortActive
	}
	k.sendEvent(event, uint64(num))
	k.net.retryWaiting()
}

// Remove removes the device from all programs that have it open, as drivers with
// disassociate_ucontext do (rdma_rxe has none): an event announces it, objects vanish without
// completions, and every call fails with EIO.
func (k *Kernel) Remove() {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.removed = true
	k.updateQuiet()
	k.net.topologyVersion++
	for _, f := range k.files {
		f.destroyAll()
		f.event(eventDeviceFatal, 0)
	}
}

// SetGID changes an entry of the first port's table, as SetPortGID. The new entry is RoCE v2 and
// has the network interface of the first entry.
func (k *Kernel) SetGID(index int, gid [16]byte) {
	first := k.Config().Ports[0].GIDs[0]
	k.SetPortGID(1, index, GID{ID: gid, NetDev: first.NetDev, IfIndex: first.IfIndex})
}

// SetPortGID changes an entry of the table of a port, counted from 1; a zero GID empties the entry.
func (k *Kernel) SetPortGID(num, index int, g GID) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.ports[num-1].GIDs[index] = g
	k.net.topologyVersion++
	k.sendEvent(eventGIDChange, uint64(num))
}

// sendEvent sends an event to every context of the device. The caller holds Fabric.mu.
func (k *Kernel) sendEvent(typ uint32, element uint64) {
	for _, f := range k.files {
		f.event(typ, element)
	}
}

// NotReady returns how often receivers have answered a sender on the device that they have no
// receive (RNR NAK), as rdma_rxe counts in rcvd_rnr_err.
func (k *Kernel) NotReady() uint64 {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return k.notReady
}

// Objects returns the number of objects of all contexts.
func (k *Kernel) Objects() int {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	n := 0
	for _, f := range k.files {
		n += len(f.objects)
	}
	return n
}

// Mapped returns the number of queues that are mapped through any file.
func (k *Kernel) Mapped() int {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	n := 0
	for _, f := range k.files {
		n += f.mapped
	}
	return n
}
