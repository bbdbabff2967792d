//go:build linux

// Command devinfo prints the properties of RDMA devices as this library sees them. It has the
// options, layout and exit status of ibv_devinfo of rdma-core 44 (libibverbs/examples/devinfo.c). A
// device whose queue format the library does not support cannot be opened; devinfo prints only the
// error. --selftest, which the C tool does not have, tries every operation that the library uses a
// device for.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/ucx-go/ucx/internal/getopt"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Exit codes of ibv_devinfo. The codes of several devices are or-ed together. If a port cannot be
// queried, the code is the errno of the query.
const (
	exitOK      = 0
	exitPort    = 1 // the argument of -i is not a port number
	exitOpen    = 1
	exitQuery   = 2
	exitClose   = 3
	exitNoPort  = 4 // the device has no such port
	exitFailure = 255
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	return machine{open: (*verbs.Device).Open}.run(args, stdout, stderr)
}

// machine has the mount point of sysfs, "" for /sys, and the function that opens a device. Tests
// replace both.
type machine struct {
	sysfs string
	open  func(*verbs.Device) (*verbs.Context, error)
}

// options are the parsed command line options.
type options struct {
	device  string // "": all devices
	port    int    // 0: all ports
	list    bool
	verbose bool
	test    bool // run the selftest
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

// parse parses the command line. If there is nothing to show, after an error or -h, it returns nil
// and the exit code of the process. Like ibv_devinfo, it ignores the arguments after -l.
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
				fmt.Fprintf(stderr, "devinfo: unexpected argument %q; -d selects a device\n", rest[0])
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
  -v, --verbose        all attributes
      --selftest=NAME  all attributes of a device, and a test of everything that the
                       library needs, with data checked: a report for support requests
  -h, --help           print this text
`)
}

// show prints the requested information and returns the exit code.
func (m machine) show(out *bufio.Writer, stderr io.Writer, o *options) int {
	list, err := verbs.Devices(m.sysfs)
	if err != nil {
		fmt.Fprintf(stderr, "devinfo: cannot list devices: %v\n", err)
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

// showDevice prints the properties of one device, as far as they can be queried, and returns the
// exit code.
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
				code = fail(code, "selftest not run", err)
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

// exitCode returns the exit code for a failed query of ports: the errno, as in ibv_devinfo, or
// exitFailure if the error has no errno or concerns the GID table.
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
