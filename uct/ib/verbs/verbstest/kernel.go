//go:build linux

package verbstest

import (
	"slices"
	"syscall"

	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// Kernel is one device. Any goroutine may use it.
type Kernel struct {
	net    *Fabric
	cfg    Config
	of     personality
	number int // in the network, from 0
	// What follows is under net.mu.
	ports   []*port
	removed bool
	files   []*file        // as they were opened
	qps     map[uint32]*qp // by number
	order   []*qp          // the same, as they were made
	mrs     map[uint32]*mr // by index of the keys
	mws     map[uint32]*mw // by index of the key
	ahs     map[uint32]*ah // by number
	nextQPN uint32
	nextKey uint32
	nextAH  uint32
	faults  Errnos
	srqs    int       // shared receive queues
	broken  []string  // rules, by programs
	watch   MLX5Watch // nil for nobody
	resolve func(from, to [16]byte) syscall.Errno

	pinned, pinnedMost int64  // bytes
	notReady           uint64 // answers of receivers
}

// New returns a device in a network of its own, rxe0, endless, with one port and the GIDs that
// rdma_rxe has on lo: fe80::200:ff:fe00:0, ::ffff:127.0.0.1 and ::1.
func New() *Kernel { return NewFabric().Add(Config{Ports: []Port{loopback()}, Endless: true}) }

// Name is the name of the device.
func (k *Kernel) Name() string { return k.cfg.Name }

// ABI is the version of the interface of the device's driver.
func (k *Kernel) ABI() int {
	_, version := k.of.driver()
	return version
}

// Config is what the device is like, with what was left out when it was made, and as
// its ports are now.
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

// Fabric is the network of the device.
func (k *Kernel) Fabric() *Fabric { return k.net }

// Open opens the device once more.
func (k *Kernel) Open() uverbs.File { return uverbs.Traced(k.open()) }

func (k *Kernel) open() *file {
	return k.openIn(nil)
}

// openIn opens it for a program with other memory than this process's, if s is not nil.
func (k *Kernel) openIn(s Space) *file {
	f := &file{k: k, space: s, objects: make(map[uint32]any), told: make(map[subject]uint32), channels: make(map[int]*mailbox)}
	f.drv = k.of.open(f)
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.files = append(k.files, f)
	f.muffle()
	k.net.attendTo()
	return f
}

// FailCall makes the call of a name, as in the table of package abi, fail once
// after it has been let through skip times. The name "mmap" is that of mappings,
// "write" of doorbells.
func (k *Kernel) FailCall(name string, skip int, errno syscall.Errno) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.faults.Fail(name, skip, errno)
	k.muffle()
}

// SetPort takes the first port up or down, as SetLink.
func (k *Kernel) SetPort(active bool) { k.SetLink(1, active) }

// SetLink takes a port, from 1, up or down and sends the event to every context. The
// ports that it reaches are not told. What waits for a peer is tried again.
func (k *Kernel) SetLink(num int, active bool) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.ports[num-1].active = active
	k.net.era++
	event := uint32(eventPortErr)
	if active {
		event = eventPortActive
	}
	k.tell(event, uint64(num))
	k.net.kick()
}

// Remove takes the device from all who have it open, as drivers do that have
// disassociate_ucontext, which rdma_rxe has not: an event says so, objects end without
// completions, and every call fails with EIO.
func (k *Kernel) Remove() {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.removed = true
	k.muffle()
	k.net.era++
	for _, f := range k.files {
		f.destroyAll()
		f.event(eventDeviceFatal, 0)
	}
}

// SetGID changes an entry of the first port's table, as SetPortGID, to one of RoCE v2
// at the network interface that the first entry has.
func (k *Kernel) SetGID(index int, gid [16]byte) {
	first := k.Config().Ports[0].GIDs[0]
	k.SetPortGID(1, index, GID{ID: gid, NetDev: first.NetDev, IfIndex: first.IfIndex})
}

// SetPortGID changes an entry of the table of a port, from 1; a zero one is empty.
func (k *Kernel) SetPortGID(num, index int, g GID) {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	k.ports[num-1].GIDs[index] = g
	k.net.era++
	k.tell(eventGIDChange, uint64(num))
}

// tell sends an event to every context. Lock held.
func (k *Kernel) tell(typ uint32, element uint64) {
	for _, f := range k.files {
		f.event(typ, element)
	}
}

// NotReady is how often receivers have said to a sender on the device that they have no
// receive, as rdma_rxe counts it in rcvd_rnr_err.
func (k *Kernel) NotReady() uint64 {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	return k.notReady
}

// Objects counts what exists, over all contexts.
func (k *Kernel) Objects() int {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	n := 0
	for _, f := range k.files {
		n += len(f.objects)
	}
	return n
}

// Mapped counts the queues that are mapped through any file.
func (k *Kernel) Mapped() int {
	k.net.mu.Lock()
	defer k.net.mu.Unlock()
	n := 0
	for _, f := range k.files {
		n += f.mapped
	}
	return n
}
