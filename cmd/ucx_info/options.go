package main

import (
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/internal/getopt"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs/config"
)

// options is the command line.
type options struct {
	version, build, types, system, devices, topology, copies bool

	context, worker, endpoint bool // options -p, -w and -e about the protocol layer
	memory                    string

	print     config.PrintFlags
	filter    string // print only settings with this text in their names
	json      bool
	transport string // print only this transport; "" for all

	features      ucp.Features
	errorHandling bool
	numEPs        int    // estimated number of endpoints
	numPPN        int    // estimated number of endpoints on this host
	deviceType    string // use only devices of this type; "" for all
	place         placement
	address       string // the address for a client and a server; "" for none
	ipv6          bool   // the address is an IPv6 address
}

// parse reads the command line. If there is nothing to do it returns the process's exit code.
func parse(args []string, stdout, stderr io.Writer) (*options, int) {
	o := &options{place: placeSelf, numEPs: 1, numPPN: 1}
	p := getopt.New(args, "vbysdcCafhpweTM6t:F:m:u:n:N:D:P:A:", []getopt.Long{{Name: "json", OneDash: true}})
	for {
		opt, value, err := p.Next()
		if opt == "" && err == nil {
			if rest := p.Operands(); len(rest) > 0 {
				fmt.Fprintf(stderr, "ucx_info: unexpected argument %q\n", rest[0])
				usage(stdout)
				return nil, exitUsage
			}
			return o.check(stdout, stderr)
		}
		if opt == "h" || opt == getopt.Help {
			usage(stdout)
			return nil, exitOK
		}
		if err == nil {
			err = o.set(opt, value)
		}
		if err != nil {
			fmt.Fprintf(stderr, "ucx_info: %v\n", err)
			usage(stdout)
			return nil, exitUsage
		}
	}
}

// set applies one option.
func (o *options) set(opt, value string) error {
	switch opt {
	case "v":
		o.version = true
	case "b":
		o.build = true
	case "y":
		o.types = true
	case "T":
		o.topology = true
	case "A":
		o.address = value
	case "6":
		o.ipv6 = true
	case "s":
		o.system = true
	case "d":
		o.devices = true
	case "M":
		o.copies = true
	case "p":
		o.context = true
	case "w":
		o.worker = true
	case "e":
		o.endpoint = true
	case "m":
		if value == "" {
			return fmt.Errorf("-m needs a size")
		}
		o.memory = value
	case "t":
		o.transport = value
	case "F":
		o.filter = value
	case "c":
		o.print |= config.PrintConfig
	case "C":
		o.print |= config.PrintCommentDefault
	case "a":
		o.print |= config.PrintHidden
	case "f":
		o.print |= config.PrintConfig | config.PrintHeader | config.PrintDoc
	case "u":
		return o.setFeatures(value)
	case "n", "N":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return fmt.Errorf("-%s %s: not a number of endpoints", opt, value)
		}
		if opt == "n" {
			o.numEPs = n
		} else {
			o.numPPN = n
		}
	case "D":
		return o.setDeviceType(strings.ToLower(value))
	case "P":
		o.place = placement(strings.ToLower(value))
		if o.place != placeSelf && o.place != placeIntra && o.place != placeInter {
			return fmt.Errorf("-P %s: not self, intra or inter", value)
		}
	case "json":
		o.json = true
	}
	return nil
}

func (o *options) setDeviceType(kind string) error {
	switch kind {
	case "all":
		o.deviceType = ""
	case "self", "shm", "net":
		o.deviceType = kind
	default:
		return fmt.Errorf("-D %s: not all, shm, net or self", kind)
	}
	return nil
}

// setFeatures reads the letters of -u.
func (o *options) setFeatures(letters string) error {
	for _, l := range letters {
		switch l {
		case 'a':
			o.features |= ucp.FeatureAMO32 | ucp.FeatureAMO64
		case 'r':
			o.features |= ucp.FeatureRMA
		case 't':
			o.features |= ucp.FeatureTag
		case 's':
			o.features |= ucp.FeatureStream
		case 'm':
			o.features |= ucp.FeatureAM
		case 'x':
			o.features |= ucp.FeatureExportedMemh
		case 'w':
			o.features |= ucp.FeatureWakeup
		case 'e':
			o.errorHandling = true
		case 'd': // operations started by GPUs: ignored, as in C's tool built without them
		default:
			return fmt.Errorf("-u %s: no feature %q", letters, l)
		}
	}
	return nil
}

// check refuses a command line that requests no output. The modifiers of -c alone are accepted, as
// by C's tool, and print nothing.
func (o *options) check(stdout, stderr io.Writer) (*options, int) {
	const needed = ucp.FeatureAMO32 | ucp.FeatureAMO64 | ucp.FeatureRMA | ucp.FeatureTag | ucp.FeatureAM
	more := o.types || o.topology || o.copies || o.wantsUCP()
	inJSON := o.version || o.build || o.system || o.devices || o.print&config.PrintConfig != 0
	switch {
	case o.json && (!inJSON || more || o.filter != ""):
		fmt.Fprintln(stderr, "ucx_info: -json needs one of -v, -b, -s, -d and -c and takes nothing else but -t")
		return nil, exitUsage
	case o.wantsUCP() && o.features&needed == 0:
		fmt.Fprintln(stderr, "ucx_info: -p, -w, -e and -m need at least one of the features a, r, t, m, with -u")
		usage(stdout)
		return nil, exitUsage
	case o.address != "" && o.listenAt() == netip.AddrPort{}:
		fmt.Fprintf(stderr, "ucx_info: -A %s: not an IP address of this kind, -6 is for IPv6\n", o.address)
		return nil, exitUsage
	case inJSON || more || o.print != 0:
		return o, exitOK
	}
	usage(stdout)
	return nil, exitNothing
}

// listenAt returns the address of -A, or the zero value if it is not a valid address.
func (o *options) listenAt() netip.AddrPort {
	a, err := netip.ParseAddr(o.address)
	if err != nil || a.Is4() == o.ipv6 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, 0)
}

func usage(w io.Writer) {
	fmt.Fprint(w, `Usage: ucx_info [options]
One of these is needed; they may be combined ("-vd"):
  -v          versions
  -d          memory domains, transports and devices, RDMA devices
  -b          build settings
  -y          sizes of the library's types
  -s          the machine: timer, CPU, product
  -T          topology: distances between devices
  -M          bandwidth of copies in memory
  -c          settings, as UCX_NAME=value
  -f          settings with explanations
With -c or -f:
  -C          put a # before settings that have their default
  -a          also show aliases and deprecated names
  -F <text>   only settings with that in their name
With -d:
  -t <name>   only this transport
Of the protocol layer, all with -u:
  -p          context: memory domains and resources
  -w          worker
  -e          endpoint: lanes and protocols
  -m <size>   how memory of that size is allocated
  -u <letters> features: a atomics, r remote memory access, t tag matching,
              s stream, m active messages, x exported memory handles, d GPU
              operations (not supported), w wakeup, e error handling
  -n <count>  endpoints to expect, -N <count> of them on a host
  -D <type>   devices: all, shm, net or self
  -P <place>  peer of the endpoint: self (same worker), intra (same host), inter
  -A <ip>     connect the endpoint as client and server at that address of this
              host; -6 for an IPv6 address
Other:
  -json       print JSON; "go doc ./cmd/ucx_info" describes it
  -h          print this text
`)
}
