//go:build linux

package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
)

// inside returns the place for programs that each get their own namespaces, and their own /proc if
// ownProc is true.
func (p *place) inside(namespaces uintptr, ownProc bool) *place {
	q := *p
	q.namespaces, q.ownProc = namespaces, ownProc
	return &q
}

// separate adds the user and the namespaces of the place to a command.
func (p *place) separate(cmd *exec.Cmd) {
	if p.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}}
	}
	if p.namespaces == 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: p.namespaces}
	if p.namespaces&unix.CLONE_NEWUSER != 0 { // root in the namespace
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if p.ownProc {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS
		const script = `mount -t proc proc /proc && exec "$0" "$@"`
		cmd.Args = append([]string{"sh", "-c", script, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
}

// newContainer makes a place like a container: its own PIDs, IPC, network and /dev/shm, shared by
// all programs in it.
func newContainer() (*place, error) {
	p, err := newNamespace()
	if err != nil {
		return nil, err
	}
	if err := p.enclose(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// enclose gives a namespace its own PIDs and shared memory.
func (p *place) enclose() (err error) {
	if err := p.ownMemory(); err != nil {
		return err
	}
	// The first process of a PID namespace, which lives as long as that process.
	first := exec.Command("sleep", "infinity")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	p.do(func() {
		err = first.Start()
	})
	if err != nil {
		return err
	}
	p.ending = append(p.ending, func() {
		_ = first.Process.Kill()
		_ = first.Wait() // the error is only that it was killed
	})
	p.do(func() {
		var fd int
		fd, err = unix.Open(fmt.Sprintf("/proc/%d/ns/pid", first.Process.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		// It applies to children of this thread.
		if err = unix.Setns(fd, unix.CLONE_NEWPID); err != nil {
			return
		}
		out, failed := exec.Command("mount", "-t", "proc", "proc", "/proc").CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("mount of /proc: %w: %s", failed, out)
		}
	})
	return err
}

// separations are the ways to separate two processes of one machine. best is the transport that
// messages must use if both are Go.
var separations = []struct {
	name  string
	best  string
	build func() (here, there *place, err error)
}{
	{"nothing", "posix", beside(0, false)},
	{"IPC", "tcp", beside(unix.CLONE_NEWIPC, false)},
	{"PID", "tcp", beside(unix.CLONE_NEWPID, false)},
	{"PID and proc", "tcp", beside(unix.CLONE_NEWPID, true)},
	{"network", "posix", newUnlinkedPlaces},
	{"PID IPC network", "tcp", newLinkedContainers},
	{"user", "", beside(unix.CLONE_NEWUSER, false)},
	{"user, both", "", withUsers(beside(0, false))},
	{"user network", "", withUsers(newLinkedPlaces)},
	{"nothing in a container", "posix", func() (*place, *place, error) {
		p, err := newContainer()
		return p, p, err
	}},
}

// beside makes a place whose programs see each other, and one whose programs are separated from
// those.
func beside(namespaces uintptr, ownProc bool) func() (*place, *place, error) {
	return func() (*place, *place, error) {
		p, err := newNamespace()
		if err != nil {
			return nil, nil, err
		}
		there := p.inside(namespaces, ownProc)
		if err := there.probe(); err != nil {
			p.close()
			return nil, nil, err
		}
		return p, there, nil
	}
}

// probe runs a program in the place to check that this is possible.
func (p *place) probe() (err error) {
	cmd := exec.Command("true")
	p.separate(cmd)
	p.do(func() { err = cmd.Run() })
	return err
}

// withUsers gives each program in two places its own user namespace.
func withUsers(build func() (here, there *place, err error)) func() (*place, *place, error) {
	return func() (*place, *place, error) {
		here, there, err := build()
		if err != nil {
			return nil, nil, err
		}
		apart := here.inside(unix.CLONE_NEWUSER, false)
		if err := apart.probe(); err != nil {
			here.close()
			if there.calls != here.calls {
				there.close()
			}
			return nil, nil, err
		}
		return apart, there.inside(unix.CLONE_NEWUSER, false), nil
	}
}

func newUnlinkedPlaces() (*place, *place, error) {
	here, err := newNamespace()
	if err != nil {
		return nil, nil, err
	}
	there, err := newNamespace()
	if err != nil {
		here.close()
		return nil, nil, err
	}
	return here, there, nil
}

func newLinkedContainers() (*place, *place, error) {
	here, there, err := newLinkedPlaces()
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(here.enclose(), there.enclose()); err != nil {
		here.close()
		there.close()
		return nil, nil, err
	}
	return here, there, nil
}

// TestSeparated connects processes that enable all transports but do not share all namespaces. They
// must choose a transport that works between them.
func TestSeparated(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	if os.Geteuid() != 0 {
		needtest.Right(t, "root, to make namespaces")
	}
	c := buildC(t)
	ours := buildGo(t)
	for _, s := range separations {
		here, there, err := s.build()
		if err != nil {
			t.Run(s.name, func(t *testing.T) {
				if strings.Contains(s.name, "user") {
					needtest.UserNamespace(t, err)
				}
				needtest.Right(t, "namespaces: "+err.Error())
			})
			continue
		}
		for _, theirs := range append([]program{ours}, c...) {
			best := s.best
			if !theirs.ours {
				best = ""
			}
			t.Run(s.name+"/"+theirs.name, func(t *testing.T) { separated(t, here, there, ours, theirs, best) })
			if here != there {
				t.Run(s.name+"/"+theirs.name+", we are there", func(t *testing.T) {
					separated(t, there, here, ours, theirs, best)
				})
			}
		}
		here.close()
		if there.calls != here.calls {
			there.close()
		}
	}
}

// TestOtherSource connects with processes that listen at an address of one device and connect from
// that of another, as C UCX does when it does not bind its connections.
func TestOtherSource(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	if os.Geteuid() != 0 {
		needtest.Right(t, "root, to make namespaces")
	}
	ours := buildGo(t)
	here, there, err := newLinkedPlaces()
	if err == nil {
		defer here.close()
		defer there.close()
		err = there.ip("link add ucx2 type veth peer name ucx3", "addr add 198.18.1.2/24 dev ucx2",
			"link set ucx2 up", "link set ucx3 up")
	}
	if err == nil {
		err = here.ip("route add 198.18.1.0/24 via 198.18.0.2 dev " + firstDevice)
	}
	if err == nil {
		err = there.useDevice("ucx2")
	}
	if err == nil {
		// Releases that check for a route from the device find this one, which has a lower
		// priority.
		err = there.ip("route add 198.18.0.0/24 dev ucx2 metric 1000")
	}
	if err != nil {
		needtest.Right(t, "namespaces: "+err.Error())
	}
	for _, theirs := range append([]program{ours}, buildC(t)...) {
		theirs.env = append(slices.Clone(theirs.env), "UCX_TCP_EP_BIND_SRC_ADDR=n", "UCX_WARN_UNUSED_ENV_VARS=n")
		t.Run(theirs.name, func(t *testing.T) {
			over := network(device{firstDevice, firstDevice})
			back := route{name: "ucx2", tls: "tcp", both: true, devices: "ucx2"}
			rounds := 5 // either side may be first
			if testing.Short() {
				rounds = 2
			}
			for range rounds {
				exchangeApart(t, here, there, ours, theirs, over, back, "tcp")
			}
		})
	}
}

// separated exchanges some messages between two peers.
func separated(t *testing.T, here, there *place, ours, theirs program, best string) {
	exchangeApart(t, here, there, ours, theirs, allTransports, allTransports, best)
}

func exchangeApart(t *testing.T, here, there *place, ours, theirs program, over, back route, best string) {
	p, err := newPairApart(here, there, ours, theirs, setting{}, over, back)
	if err != nil && !theirs.ours {
		// C's own choice may be what fails.
		q, control := newPairApart(here, there, theirs, theirs, setting{}, over, back)
		if control != nil {
			t.Skipf("C cannot talk to itself: %v", control)
		}
		q.abort()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.report(t)
	for _, size := range []int{8, 16384, 1 << 20} {
		for _, op := range slices.Concat(operations, sharedOperations) {
			switch op.name {
			case "send", "send sync", "burst", "exchange", "put", "get", "atomics", "put alloc", "get alloc", "atomics alloc":
				for _, from := range []*peer{p.ours, p.theirs} {
					to := p.ours
					if from == to {
						to = p.theirs
					}
					if err := op.run(from, to, &p.msgs, size); err != nil && !errors.Is(err, errNothingToDo) {
						t.Fatalf("%s of %d bytes, from %s: %v", op.name, size, from.name, err)
					}
				}
			}
		}
	}
	if err := woken(t, p); err != nil {
		t.Fatal(err)
	}
	lanes, err := p.ours.command("transports", ep)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("our lanes:", strings.Join(lanes, " "))
	if best != "" && !strings.HasPrefix(lanes[0], best+"/") {
		t.Errorf("messages travel by %s, not %s", lanes[0], best)
	}
	if err := p.close("none"); err != nil {
		t.Error(err)
	}
}

// woken checks that a message wakes the sleeping Go side.
func woken(t *testing.T, p *pair) error {
	m := p.msgs.next(100)
	s, err := p.ours.send(ep, m, "contig", "sync")
	if err != nil {
		return err
	}
	if err := p.ours.tell("sleep", s, operationLimit.Milliseconds()); err != nil {
		return err
	}
	p.ours.process.asleep(t)
	r, err := p.theirs.recv(m.tag, fullMask, m.size, "contig")
	if err != nil {
		return err
	}
	if err := p.theirs.received(r, m); err != nil {
		return err
	}
	values, err := p.ours.answer("sleep")
	if err != nil {
		return err
	}
	got, err := parseResult(values)
	if err == nil && got.status != ucs.OK {
		err = p.ours.statusError("send", got.status)
	}
	return err
}
