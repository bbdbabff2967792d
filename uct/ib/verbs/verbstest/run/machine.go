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

// Machine is a simulated computer with the devices of a network. Any goroutine may use it.
type Machine struct {
	net      *verbstest.Fabric
	listener int
	epoll    int
	end      int // eventfd: the loop ends when it is written
	serving  func()
	over     chan struct{} // closed when the loop has ended

	mu      sync.Mutex
	spawn   chan func() // under mu: functions for the thread under the filter; nil once it has been shut down
	closing sync.Once

	// Only the goroutine of the method loop uses the fields below.
	tree      *tree
	devices   map[fileID]*device // by the file that replaces the device
	processes map[int]*process   // by number
}

// New makes a machine with the devices of a network, including those added later. It fails with
// ErrUnsupported if the kernel or the environment of this process forbids the filter. From then on
// the devices work by themselves: see Fabric.Serve.
func New(n *verbstest.Fabric) (*Machine, error) {
	m := &Machine{
		net: n, spawn: make(chan func()), over: make(chan struct{}),
		devices: make(map[fileID]*device), processes: make(map[int]*process),
	}
	var err error
	if m.tree, err = newTree(n.Listing()); err != nil {
		return nil, err
	}
	ready := make(chan listening)
	go spawner(filter(calls), m.spawn, ready)
	l := <-ready
	if l.err != nil {
		m.tree.remove()
		return nil, l.err
	}
	m.listener = l.fd
	if err := m.open(); err != nil {
		close(m.spawn)
		unix.Close(m.listener)
		m.tree.remove()
		return nil, fmt.Errorf("run: %w: %w", err, ucs.ErrIO)
	}
	m.serving = n.Serve()
	go m.loop()
	return m, nil
}

// Start is cmd.Start for a program on the machine. All other methods of cmd work as usual.
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

// Wait returns when all started programs and all their children have ended. No program can be
// started afterwards.
func (m *Machine) Wait() {
	m.shut()
	<-m.over
}

// shut ends the thread under the filter, so that no more programs can be started.
func (m *Machine) shut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spawn != nil {
		close(m.spawn)
		m.spawn = nil
	}
}

// Close removes the devices. Programs that still run can no longer open files: end them first.
func (m *Machine) Close() error {
	m.closing.Do(func() {
		m.shut() // first, because the loop answers the calls of that thread
		one := [8]byte{7: 1}
		unix.Write(m.end, one[:])
		<-m.over
		m.serving()
		for _, fd := range []int{m.epoll, m.end, m.listener} {
			unix.Close(fd)
		}
		m.tree.remove()
	})
	return nil
}
