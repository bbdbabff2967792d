//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/getopt"
)

// options is the command line.
type options struct {
	server  string // host to connect to; "" for a server
	port    uint16
	network string // "tcp4" or "tcp6"
	peer    perfoob.Release
	cpus    []int
	batches []string // batch files of tests

	final   bool
	csv     bool
	numeric bool

	params params // the defaults of all tests
}

// params are the parameters of a test: those that both sides agree on, and those that each side
// sets separately.
type params struct {
	perfoob.Params

	block  bool // wait in blocking calls of the library
	shared bool // one worker for all threads
	extra  bool // print information about the operation
}

func defaultParams() params { return params{Params: perfoob.DefaultParams()} }

// Letters of options. Those of testLetters may also appear in a batch file.
const (
	letters     = "p:b:6NfvXc:P:hK:k"
	testLetters = "t:n:s:W:O:w:D:i:H:oSCIqM:r:E:T:d:x:A:BUem:a:R:lyzL:F:Y:g:G:"
)

const defaultPort = 13337

var longOptions = []getopt.Long{
	{Name: "peer", Value: true},
	{Name: "shared"},
	{Name: "daemon-local", Value: true, Returned: "g"},
	{Name: "daemon-remote", Value: true, Returned: "G"},
}

// parseOptions reads the command line. Options and the host's name may appear in any order.
func parseOptions(args []string) (*options, error) {
	o := &options{
		port:    defaultPort,
		network: "tcp4",
		peer:    perfoob.Release122,
		params:  defaultParams(),
	}
	p := getopt.New(args, letters+testLetters, longOptions)
	for {
		opt, value, err := p.Next()
		if err != nil {
			return nil, err
		}
		if opt == "" {
			break
		}
		if err := o.set(opt, value); err != nil {
			return nil, err
		}
	}
	if rest := p.Operands(); len(rest) > 0 {
		if o.server = rest[0]; len(rest) > 1 {
			return nil, fmt.Errorf("unexpected argument %q after the server name %s", rest[1], rest[0])
		}
		if o.params.Flags&perfoob.FlagLoopback != 0 {
			return nil, fmt.Errorf("server name %s with -l (loopback), which takes none", o.server)
		}
	}
	return o, o.params.Validate()
}

func (o *options) set(opt, value string) (err error) {
	switch opt {
	case "p":
		var port uint64
		if port, err = strconv.ParseUint(value, 10, 16); err != nil {
			return badValue(opt, value, "a port")
		}
		o.port = uint16(port)
	case "6":
		o.network = "tcp6"
	case "b":
		o.batches = append(o.batches, value)
	case "N":
		o.numeric = true
	case "f":
		o.final = true
	case "v":
		o.csv = true
	case "c":
		o.cpus, err = parseCPUs(value)
	case "peer":
		o.peer, err = perfoob.ParseRelease(value)
	case "shared":
		o.params.shared = true
	case "P":
		switch value {
		case "0":
		case "1":
			return leftOut(opt)
		default:
			return badValue(opt, value, "0 or 1")
		}
	case "h", getopt.Help:
		return errHelp
	case "X":
		o.params.extra = true
	default:
		return setTestOption(&o.params, opt, value)
	}
	return err
}

func parseCPUs(value string) ([]int, error) {
	var list []int
	for _, part := range strings.Split(value, ",") {
		n, err := number[uint32]("c", part)
		if err != nil {
			return nil, err
		}
		list = append(list, int(n))
	}
	return list, nil
}
