package interop

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// place is where the peers run: a network with a loopback device and, if there
// is one, a device that looks like an Ethernet card. As root it is a namespace of
// its own, so that the result does not depend on the devices of the machine.
//
// A namespace belongs to a thread, and a child process inherits it from the
// thread that starts it. So one goroutine, locked to its thread, starts all.
type place struct {
	calls chan<- func()
	eth   string // name of the second device, empty if there is none
	why   string // why there is none
}

// Addresses from the range that RFC 2544 sets aside for tests.
const (
	vethAddress = "198.18.0.1/24"
	vethName    = "ucx0"
)

// newPlace prepares the network: a namespace, or else what the machine has. It
// is given up by close.
func newPlace() *place {
	calls, err := serve(enterNamespace)
	if err == nil {
		return &place{calls: calls, eth: vethName}
	}
	calls, _ = serve(func() error { return nil })
	p := &place{calls: calls}
	if p.eth, p.why = machineDevice(); p.eth == "" {
		p.why += ", and no namespace of our own: " + err.Error()
	}
	return p
}

// serve prepares a thread and then runs the functions of the channel on it.
func serve(prepare func() error) (chan<- func(), error) {
	calls, ready := make(chan func()), make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and the
		// namespace with the thread and the last process in it.
		runtime.LockOSThread()
		err := prepare()
		ready <- err
		if err != nil {
			return
		}
		for call := range calls {
			call()
		}
	}()
	return calls, <-ready
}

// enterNamespace gives the calling thread a network of its own with a pair of
// devices, and a view of /sys to go with it: UCX lists the devices there.
func enterNamespace() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount of /sys: %w", err)
	}
	for _, command := range []string{
		"link set lo up",
		"link add " + vethName + " type veth peer name ucx1",
		"addr add " + vethAddress + " dev " + vethName,
		"link set " + vethName + " up",
		"link set ucx1 up",
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// machineDevice returns the first device of the machine that is up, is not the
// loopback device and has an IPv4 address; or why there is none.
func machineDevice() (name, why string) {
	devices, err := net.Interfaces()
	if err != nil {
		return "", err.Error()
	}
	for _, d := range devices {
		if d.Flags&net.FlagUp == 0 || d.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := d.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
				return d.Name, ""
			}
		}
	}
	return "", "no network device but lo has an IPv4 address"
}

// start starts a program in the place.
func (p *place) start(cmd *exec.Cmd) (started *process, err error) {
	done := make(chan struct{})
	p.calls <- func() {
		started, err = startProcess(cmd)
		close(done)
	}
	<-done
	return started, err
}

// freePort returns a TCP port that nobody uses in the place.
func (p *place) freePort() (port string, err error) {
	done := make(chan struct{})
	p.calls <- func() {
		defer close(done)
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		err = l.Close()
	}
	<-done
	return port, err
}

// close gives the place up.
func (p *place) close() { close(p.calls) }

// device is a choice of UCX_NET_DEVICES.
type device struct{ name, list string }

// devices lists the choices the place offers.
func (p *place) devices() []device {
	list := []device{{"lo", "lo"}}
	if p.eth != "" {
		list = append(list, device{"eth", p.eth}, device{"both", "lo," + p.eth})
	}
	return list
}
