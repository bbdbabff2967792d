package main

import (
	"fmt"
	"io"

	"github.com/ucx-go/ucx/cmd/internal/getopt"
	"github.com/ucx-go/ucx/ucs/config"
)

// options is the command line.
type options struct {
	version, build, system, devices bool

	print     config.PrintFlags
	json      bool
	transport string // only this one, "": all
}

// unsupported are options of C's tool that this one does not have.
const unsupported = "ywpe6TMF:n:u:D:P:m:N:A:"

// parse reads the command line. Without options to act on it returns the
// process's exit code.
func parse(args []string, stdout, stderr io.Writer) (*options, int) {
	o := new(options)
	p := getopt.New(args, "vbsdcCafht:"+unsupported, []getopt.Long{{Name: "json", OneDash: true}})
	for {
		opt, value, err := p.Next()
		if err != nil {
			fmt.Fprintf(stderr, "ucx_info: %v\n", err)
			usage(stdout)
			return nil, exitUsage
		}
		switch opt {
		case "":
			return o.check(stdout, stderr)
		case "v":
			o.version = true
		case "b":
			o.build = true
		case "s":
			o.system = true
		case "d":
			o.devices = true
		case "t":
			o.transport = value
		case "c":
			o.print |= config.PrintConfig
		case "C":
			o.print |= config.PrintCommentDefault
		case "a":
			o.print |= config.PrintHidden
		case "f":
			o.print |= config.PrintConfig | config.PrintHeader | config.PrintDoc
		case "json":
			o.json = true
		case "h":
			usage(stdout)
			return nil, exitOK
		default:
			fmt.Fprintf(stderr, "ucx_info: option -%s is not supported yet\n", opt)
			return nil, exitUnsupported
		}
	}
}

// check refuses a command line that asks for nothing. The modifiers of -c alone
// are enough for C's tool, which then prints nothing.
func (o *options) check(stdout, stderr io.Writer) (*options, int) {
	if o.version || o.build || o.system || o.devices || o.print&config.PrintConfig != 0 {
		return o, exitOK
	}
	if o.json {
		fmt.Fprintln(stderr, "ucx_info: -json needs one of -v, -b, -s, -d and -c")
		return nil, exitUsage
	}
	if o.print != 0 {
		return o, exitOK
	}
	usage(stdout)
	return nil, exitNothing
}

func usage(w io.Writer) {
	fmt.Fprint(w, `Usage: ucx_info [options]
One of these is needed; they may be combined ("-vd"):
  -v          versions
  -d          memory domains, transports and devices
  -b          build settings
  -s          the machine: timer, CPU, product
  -c          settings, as UCX_NAME=value
  -f          settings with explanations
With -c or -f:
  -C          put a # before settings that have their default
  -a          also show aliases and deprecated names
With -d:
  -t <name>   only this transport
Other:
  -json       print JSON; "go doc ./cmd/ucx_info" describes it
  -h          print this text

Not supported yet: -y -F -p -w -e -m -u -n -N -D -P -A -6 -T -M.
`)
}
