//go:build linux && (amd64 || arm64)

package run

import (
	"fmt"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Machine is a computer with the devices of a network. Any goroutine may use it.
type Machine struct {
	net      *verbstest.Fabric
	listener int
	epoll    int
	end      int // eventfd: the loop is to end
	serving  func()
	over     chan struct{} // closed when the loop has ended

	mu      sync.Mutex
	spawn   chan func() // under mu: to the thread under the filter; nil when there is none any longer
	closing sync.Once

	// What follows is the loop's.
	tree      *tree
	devices   map[fileID]*device // by the file that programs have in its place
	processes map[int]*process   // by number
}

// New makes a computer with the devices of a network, also those that are added later. It
// fails with ErrUnsupported where the kernel, or who has started this process, forbids
// what it takes. From then on devices do their work by themselves: see Fabric.Serve.
func New(n *verbstest.Fabric) (*Machine, error) {
	m := &Machine{
		net: n, spawn: make(chan func()), over: make(chan struct{}),
		devices: make(map[fileID]*device), processes: make(map[int]*process),
	}
	var err error
	if m.tree, err = plant(n.Listing()); err != nil {
		return nil, err
	}
	ready := make(chan listening)
	go spawner(filter(calls), m.spawn, ready)
	l := <-ready
	if l.err != nil {
		m.tree.fell()
		return nil, l.err
	}
	m.listener = l.fd
	if err := m.open(); err != nil {
		close(m.spawn)
		unix.Close(m.listener)
		m.tree.fell()
		return nil, fmt.Errorf("run: %w: %w", err, ucs.ErrIO)
	}
	m.serving = n.Serve()
	go m.loop()
	return m, nil
}

// Start is cmd.Start for a program on the machine. Everything else of cmd is as always.
func (m *Machine) Start(cmd *exec.Cmd) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spawn == nil {
		return fmt.Errorf("run: the machine is closed: %w", ucs.ErrInvalidParam)
	}
	started := make(chan error, 1)
	m.spawn <- func() { started <- cmd.Start() }
	return <-started
}

// Run is cmd.Run for a program on the machine.
func (m *Machine) Run(cmd *exec.Cmd) error {
	if err := m.Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// Wait returns when all programs have ended that were started, and all that they have
// started. No other can be started any more.
func (m *Machine) Wait() {
	m.shut()
	<-m.over
}

// shut ends the thread under the filter.
func (m *Machine) shut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spawn != nil {
		close(m.spawn)
		m.spawn = nil
	}
}

// Close takes the devices away. What programs are left can open no file any more: end
// them first.
func (m *Machine) Close() error {
	m.closing.Do(func() {
		m.shut() // before the loop, which answers it
		one := [8]byte{7: 1}
		unix.Write(m.end, one[:])
		<-m.over
		m.serving()
		for _, fd := range []int{m.epoll, m.end, m.listener} {
			unix.Close(fd)
		}
		m.tree.fell()
	})
	return nil
}
