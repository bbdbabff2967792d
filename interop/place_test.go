//go:build linux

package interop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// place is where processes run: a network with a loopback device and, if possible, a device that
// looks like an Ethernet card. For root it is a separate namespace, so that the result does not
// depend on the machine's devices.
//
// A namespace belongs to a thread, and a child process inherits that of the thread that starts it.
// So one goroutine, locked to its thread, starts all processes.
type place struct {
	calls chan<- func()
	own   bool   // network and mounts are not the machine's
	eth   string // name of the second device, empty if there is none
	why   string // why it is missing

	namespaces uintptr // that each program gets for itself, as flags of clone
	ownProc    bool    // each program also has its own /proc

	user   uint32   // user of the programs, 0 for that of the test
	far    string   // address of the machine where a test starts the programs
	other  *place   // place of the other side, if another one
	ending []func() // calls of close, last one first
}

// Addresses from the range that RFC 2544 sets aside for tests.
const (
	firstDevice, firstHost, firstAddress    = "ucx0", "198.18.0.1", firstHost + "/24"
	secondDevice, secondHost, secondAddress = "ucx1", "198.18.0.2", secondHost + "/24"
)

// newPlace prepares the network: a namespace with a pair of devices, one of them with an address,
// or else the machine's network. It is removed by close.
func newPlace() *place {
	p, err := newNamespace()
	if err == nil {
		err = p.ip("link add "+firstDevice+" type veth peer name "+secondDevice,
			"addr add "+firstAddress+" dev "+firstDevice,
			"link set "+firstDevice+" up",
			"link set "+secondDevice+" up")
		if err == nil {
			err = p.useDevice(firstDevice)
		}
		if err == nil {
			return p
		}
		p.close()
	}
	p, _ = serve(func() error { return nil })
	if p.eth, p.why = machineDevice(); p.eth == "" {
		p.why += ", and no namespace of our own: " + err.Error()
	}
	return p
}

// newLinkedPlaces makes two namespaces, each with a device, and a cable between the two.
func newLinkedPlaces() (first, second *place, err error) {
	if first, err = newNamespace(); err != nil {
		return nil, nil, err
	}
	if second, err = newNamespace(); err != nil {
		first.close()
		return nil, nil, err
	}
	var thread int
	second.do(func() { thread = unix.Gettid() })
	err = first.ip("link add "+firstDevice+" type veth peer name "+secondDevice,
		"link set "+secondDevice+" netns "+strconv.Itoa(thread),
		"addr add "+firstAddress+" dev "+firstDevice,
		"link set "+firstDevice+" up")
	if err == nil {
		err = second.ip("addr add "+secondAddress+" dev "+secondDevice, "link set "+secondDevice+" up")
	}
	if err == nil {
		err = errors.Join(first.useDevice(firstDevice), second.useDevice(secondDevice))
	}
	if err != nil {
		first.close()
		second.close()
		return nil, nil, err
	}
	return first, second, nil
}

// useDevice waits until a device is up, which may take a moment, and makes it the second device of
// the place.
func (p *place) useDevice(name string) error {
	var state []byte
	for end := time.Now().Add(exitLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var err error
		p.do(func() { state, err = os.ReadFile("/sys/class/net/" + name + "/operstate") })
		if err != nil {
			return err
		}
		if string(state) == "up\n" {
			p.eth = name
			return nil
		}
	}
	return fmt.Errorf("device %s is %q", name, state)
}

// newNamespace makes a place with only a loopback device, and a /sys of its own, where UCX lists
// devices.
func newNamespace() (*place, error) {
	p, err := serve(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("private mounts: %w", err)
		}
		if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
			return fmt.Errorf("mount of /sys: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.own = true
	if err := p.ip("link set lo up"); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// serve makes a place of a thread, after calling prepare on it.
func serve(prepare func() error) (*place, error) {
	calls, ready := make(chan func()), make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and the namespace ends with the
		// thread and the last process in it.
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
	if err := <-ready; err != nil {
		return nil, err
	}
	return &place{calls: calls}, nil
}

// do runs f on the thread of the place.
func (p *place) do(f func()) {
	done := make(chan struct{})
	p.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// close removes the place.
func (p *place) close() {
	for _, end := range slices.Backward(p.ending) {
		end()
	}
	close(p.calls)
}

// ip runs commands of the ip tool in the place.
func (p *place) ip(commands ...string) (err error) {
	p.do(func() {
		for _, command := range commands {
			out, failed := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
			if failed != nil {
				err = fmt.Errorf("ip %s: %w: %s", command, failed, out)
				return
			}
		}
	})
	return err
}

// start starts a program in the place.
func (p *place) start(cmd *exec.Cmd) (started *process, err error) {
	p.separate(cmd)
	if err := p.relayed(cmd); err != nil {
		return nil, err
	}
	p.do(func() { started, err = startProcess(cmd) })
	return started, err
}

// freePort returns a TCP port that is unused at every address of the place: the server will listen
// at all of them, and earlier connections may still occupy a port of one device.
func (p *place) freePort() (port string, err error) {
	p.do(func() {
		var l net.Listener
		if l, err = net.Listen("tcp", ":0"); err != nil {
			return
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		err = l.Close()
	})
	return port, err
}

// device is a value of UCX_NET_DEVICES, with a name.
type device struct{ name, list string }

// devices lists the values that the place offers.
func (p *place) devices() []device {
	list := []device{{"lo", "lo"}}
	if p.eth != "" {
		list = append(list, device{"eth", p.eth}, device{"both", "lo," + p.eth})
	}
	return list
}

// machineDevice returns the first device of the machine that is up, not the loopback device, and
// has an IPv4 address, or the reason why there is none.
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
