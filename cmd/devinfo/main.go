//go:build linux

// Command devinfo prints what RDMA devices are and can do, as this library knows
// it: a twin of ibv_devinfo of rdma-core 44 (libibverbs/examples/devinfo.c), with its
// options, layout and exit status. Devices whose queues the library does not know
// cannot be opened, and so say nothing here but why. --selftest, which the C tool does not
// have, tries all that the library does with a device.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/ucx-go/ucx/cmd/internal/getopt"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Exit codes of the C tool. What goes wrong with several devices is or-ed together; a
// port that cannot be queried gives the errno.
const (
	exitOK      = 0
	exitPort    = 1 // a number of a port that is none
	exitOpen    = 1
	exitQuery   = 2
	exitClose   = 3
	exitNoPort  = 4 // of this device
	exitFailure = 255
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	return machine{open: (*verbs.Device).Open}.run(args, stdout, stderr)
}

// machine is where devices are looked for.
type machine struct {
	sysfs string
	open  func(*verbs.Device) (*verbs.Context, error)
}

// options is the command line.
type options struct {
	device  string // "": all
	port    int    // 0: all
	list    bool
	verbose bool
	test    bool // try the device
}

func (m machine) run(args []string, stdout, stderr io.Writer) int {
	o, code := parse(args, stdout, stderr)
	if o == nil {
		return code
	}
	out := bufio.NewWriter(stdout)
	code = m.show(out, stderr, o)
	if err := out.Flush(); err != nil {
		fmt.Fprintf(stderr, "devinfo: %v\n", err)
		return exitFailure
	}
	return code
}

// parse reads the command line. If there is nothing to show it returns the exit code
// of the process. As with the C tool what follows -l does not count.
func parse(args []string, stdout, stderr io.Writer) (*options, int) {
	o := &options{}
	p := getopt.New(args, "d:i:lvh", []getopt.Long{
		{Name: "ib-dev", Value: true, Returned: "d"}, {Name: "ib-port", Value: true, Returned: "i"},
		{Name: "list", Returned: "l"}, {Name: "verbose", Returned: "v"}, {Name: "selftest", Value: true, Returned: "t"}, {Name: "help", Returned: "h"},
	})
	for {
		opt, value, err := p.Next()
		if err != nil {
			fmt.Fprintf(stderr, "devinfo: %v\n", err)
			usage(stdout)
			return nil, exitFailure
		}
		switch opt {
		case "":
			if rest := p.Operands(); len(rest) > 0 {
				fmt.Fprintf(stderr, "devinfo: surplus argument %q; -d names a device\n", rest[0])
				usage(stdout)
				return nil, exitFailure
			}
			return o, exitOK
		case "d":
			o.device = value
		case "i":
			n, err := strconv.ParseInt(value, 0, 32)
			if err != nil || n <= 0 {
				fmt.Fprintf(stderr, "devinfo: -i %s: not the number of a port\n", value)
				usage(stdout)
				return nil, exitPort
			}
			o.port = int(n)
		case "l":
			o.list = true
			return o, exitOK
		case "v":
			o.verbose = true
		case "t":
			o.test, o.device, o.verbose = true, value, true
		case "h":
			usage(stdout)
			return nil, exitOK
		}
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, `Usage: devinfo [options]
  -d, --ib-dev=NAME    only this device
  -i, --ib-port=NUM    only this port of it, from 1
  -l, --list           only the names of devices
  -v, --verbose        everything that is known of them
      --selftest=NAME  everything that is known of a device, and whether it does all that the
                       library needs, with data checked: a report to send with a question
  -h, --help           print this text
`)
}

// show prints what was asked for and returns the exit code.
func (m machine) show(out *bufio.Writer, stderr io.Writer, o *options) int {
	list, err := verbs.Devices(m.sysfs)
	if err != nil {
		fmt.Fprintf(stderr, "devinfo: no list of devices: %v\n", err)
		return exitFailure
	}
	if o.list {
		writeList(out, list)
		return exitOK
	}
	code, found := exitOK, false
	for i := range list {
		if o.device != "" && list[i].Name != o.device {
			continue
		}
		found = true
		code |= m.showDevice(out, stderr, &list[i], o)
	}
	switch {
	case found:
	case o.device != "":
		fmt.Fprintf(stderr, "devinfo: no device %s\n", o.device)
		code = exitFailure
	default:
		fmt.Fprintln(stderr, "devinfo: no RDMA devices")
		code = exitFailure
	}
	return code
}

// showDevice prints one device, as far as it can be asked.
func (m machine) showDevice(out *bufio.Writer, stderr io.Writer, d *verbs.Device, o *options) int {
	code := exitOK
	fail := func(exit int, what string, err error) int {
		fmt.Fprintf(stderr, "devinfo: %s: %s: %v\n", d.Name, what, err)
		return exit
	}
	c, err := m.open(d)
	if err != nil {
		return fail(exitOpen, "not opened", err)
	}
	h, err := query(c, d, o)
	switch {
	case err == nil:
		writeHCA(out, h, o.verbose)
		if o.test {
			if code, err = selftest(out, c, d, o); err != nil {
				code = fail(code, "not tried", err)
			}
		}
	case h == nil:
		code = fail(exitQuery, "not queried", err)
	case errors.Is(err, errNoPort):
		code = fail(exitNoPort, fmt.Sprintf("port %d", o.port), err)
	default:
		writeHCA(out, h, o.verbose)
		code = fail(exitCode(err), "not all queried", err)
	}
	if err := c.Close(); err != nil {
		code = fail(exitClose, "not closed", err)
	}
	return code
}

// exitCode is the errno of a call, as that of the C tool.
func exitCode(err error) int {
	var errno syscall.Errno
	if errors.Is(err, errGIDs) {
		return exitFailure
	}
	if errors.As(err, &errno) && errno&0xff != 0 {
		return int(errno & 0xff)
	}
	return exitFailure
}
