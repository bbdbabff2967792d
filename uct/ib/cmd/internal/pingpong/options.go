//go:build linux

package pingpong

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/ucx-go/ucx/internal/getopt"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/cmd/internal/ibtool"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// options are the parsed command line options.
type options struct {
	server   string // host of the server; "": this end is the server
	port     int
	device   string // "": the first device
	ibPort   int
	size     int
	mtu      verbs.MTU
	rxDepth  int
	iters    int
	sl       int
	events   bool
	gidIndex int
	onDemand bool
	check    bool
	qps      int
}

// flags lists the options of all tools.
var flags = []struct{ letter, long, value, help string }{
	{"p", "port", "port", "listen on/connect to port <port> (default 18515)"},
	{"d", "ib-dev", "dev", "use IB device <dev> (default first device found)"},
	{"i", "ib-port", "port", "use port <port> of IB device (default 1)"},
	{"s", "size", "size", "size of message to exchange (default %d)"},
	{"m", "mtu", "size", "path MTU (default 1024)"},
	{"q", "num-qp", "num", "number of QPs to use (default 16)"},
	{"r", "rx-depth", "dep", "number of receives to post at a time (default 500)"},
	{"n", "iters", "iters", "number of exchanges, of all QPs (default 1000)"},
	{"l", "sl", "sl", "service level value (default 0)"},
	{"e", "events", "", "sleep on CQ events (default poll)"},
	{"g", "gid-idx", "gid index", "local port gid index (default on RoCE: the best, with\nRoCE v2 and IPv4 first; on InfiniBand none)"},
	{"o", "odp", "", "use on demand paging"},
	{"c", "chk", "", "validate received buffer"},
	{"O", "iodp", "", "(not supported here) implicit on demand paging"},
	{"P", "prefetch", "", "(not supported here) prefetch an ODP MR"},
	{"t", "ts", "", "(not supported here) get CQE with timestamp"},
	{"j", "dm", "", "(not supported here) use device memory"},
	{"N", "new_send", "", "(not supported here) use new post send WR API"},
}

// missing names the interfaces that options need and package verbs does not have.
var missing = map[string]string{
	"O": "regions of all memory, for implicit paging",
	"P": "ibv_advise_mr, to prefetch memory",
	"t": "extended completion queues, which have timestamps",
	"j": "device memory",
	"N": "the extended interface to post sends",
}

// errMissing is the error of an option of the C tools that this package does not support.
var errMissing = fmt.Errorf("not supported by package verbs: %w", ucs.ErrUnsupported)

const (
	maxQPs = 256 // number of addresses that srq_pingpong exchanges; one of them is never used
	maxSL  = 15
)

func (t *Tool) parse(args []string) (*options, error) {
	o := &options{port: 18515, ibPort: 1, size: t.size, mtu: verbs.MTU1024, rxDepth: 500, iters: 1000, gidIndex: ibtool.NoIndex, qps: 1}
	if t.shared {
		o.qps = 16
	}
	var long []getopt.Long
	for _, f := range flags {
		if strings.Contains(t.letters, f.letter) {
			long = append(long, getopt.Long{Name: f.long, Value: f.value != "", Returned: f.letter})
		}
	}
	p := getopt.New(args, t.letters, long)
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
	switch rest := p.Operands(); {
	case len(rest) > 1:
		return nil, fmt.Errorf("more than one host: %q", rest)
	case len(rest) == 1 && rest[0] == "":
		return nil, errors.New("empty host name")
	case len(rest) == 1:
		o.server = rest[0]
	}
	switch {
	case t.shared && o.size < 1:
		return nil, errors.New("a message has at least 1 byte")
	case o.qps > o.rxDepth:
		return nil, fmt.Errorf("%d receives for %d QPs: each needs at least one", o.rxDepth, o.qps)
	}
	return o, nil
}

// errHelp requests the usage text.
var errHelp = errors.New("help wanted")

func (o *options) set(opt, value string) (err error) {
	number := func(n *int, least, most int) { *n, err = ibtool.Number("-"+opt, value, least, most) }
	switch opt {
	case getopt.Help:
		return errHelp
	case "p":
		number(&o.port, 0, math.MaxUint16)
	case "d":
		o.device = value
	case "i":
		number(&o.ibPort, 1, math.MaxUint8)
	case "s":
		number(&o.size, 0, math.MaxInt32-verbs.GRHLength)
	case "m":
		var n int
		number(&n, 0, math.MaxInt32)
		for o.mtu = verbs.MTU256; err == nil && o.mtu.Bytes() != n; o.mtu++ {
			if o.mtu == verbs.MTU4096 {
				err = fmt.Errorf("-m: %d is not an MTU: 256, 512, 1024, 2048, 4096", n)
			}
		}
	case "q":
		number(&o.qps, 1, maxQPs-1)
	case "r":
		number(&o.rxDepth, 1, math.MaxInt32-maxQPs)
	case "n":
		number(&o.iters, 0, math.MaxInt32)
	case "l":
		number(&o.sl, 0, maxSL)
	case "e":
		o.events = true
	case "g":
		number(&o.gidIndex, ibtool.NoIndex, math.MaxUint8)
	case "o":
		o.onDemand = true
	case "c":
		o.check = true
	default:
		return fmt.Errorf("-%s needs %s: %w", opt, missing[opt], errMissing)
	}
	return err
}

func (t *Tool) usage(w io.Writer) {
	fmt.Fprintf(w, "Usage:\n  %s            start a server and wait for connection\n", t.Name)
	fmt.Fprintf(w, "  %s <host>     connect to server at <host>\n\nOptions:\n", t.Name)
	for _, f := range flags {
		if !strings.Contains(t.letters, f.letter) {
			continue
		}
		name := "--" + f.long
		if f.value != "" {
			name += "=<" + f.value + ">"
		}
		help := strings.ReplaceAll(f.help, "\n", "\n"+strings.Repeat(" ", 31))
		if f.letter == "s" {
			help = fmt.Sprintf(help, t.size)
		}
		fmt.Fprintf(w, "  -%s, %-24s %s\n", f.letter, name, help)
	}
}
