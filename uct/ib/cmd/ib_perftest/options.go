//go:build linux

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ucx-go/ucx/internal/getopt"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/cmd/internal/ibtool"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// verb is the operation that a test measures; VerbType, perftest_parameters.h.
type verb int

const (
	verbSend verb = iota
	verbWrite
	verbRead
	verbAtomic
)

var verbNames = []string{"send", "write", "read", "atomic"}

// test is one of the eight tests.
type test struct {
	verb verb
	bw   bool // bandwidth test, else latency test
}

func (t test) String() string {
	if t.bw {
		return verbNames[t.verb] + "_bw"
	}
	return verbNames[t.verb] + "_lat"
}

// parseTest reads the name of a test, ib_write_lat as well as write_lat.
func parseTest(name string) (test, error) {
	for v := range verbNames {
		for _, bw := range []bool{false, true} {
			if t := (test{verb(v), bw}); t.String() == strings.TrimPrefix(name, "ib_") {
				return t, nil
			}
		}
	}
	return test{}, fmt.Errorf("no test %q: choose from {write,read,send,atomic}_{lat,bw}", name)
}

// Defaults and limits of options; perftest_parameters.h.
const (
	defaultPort    = 18515
	defaultTimeout = 14
	defaultCQMod   = 100
	defaultRxDepth = 512
	minIters       = 5
	maxIters       = 100000000
	maxDepth       = 15000
	maxRxDepth     = 16384
	maxUCRxDepth   = 16000
	maxCQMod       = 1024
	maxInline      = 912
	maxPostList    = maxDepth
	maxSize        = 1<<31 - 1
	allSizes       = 1 << 23
	// Every request for more bytes than cqModLimit is signaled, unless -Q is given.
	cqModLimit = 8192
)

// options are the command line options, with derived values filled in.
type options struct {
	test
	host    string // server to connect to; "": this side is the server
	tcpPort int
	device  string
	ibPort  int
	gid     int // GID index; ibtool.NoIndex: the best GID

	conn       verbs.QPType
	size       int
	sized      bool // -s was given
	all        bool
	iters      int
	duration   time.Duration // instead of iters, unless 0
	margin     time.Duration // at the beginning and the end of duration, not measured
	txDepth    int
	rxDepth    int
	postList   int
	cqMod      int // every cqMod-th request is signaled
	wantMTU    int // MTU in bytes; 0: the MTU of the port
	wantInline int // largest inline message in bytes; -1: the default for the device
	timeout    uint8
	events     bool
	both       bool // bandwidth in both directions
	noPeak     bool
	swap       bool // atomic tests: compare and swap, else fetch and add
	outReads   int  // 0: the maximum of the device
}

var (
	errHelp    = errors.New("help wanted")
	errVersion = errors.New("version wanted")
)

// letters are the option letters of this tool, laterLetters those that only the C programs have,
// both in the format of getopt.
const (
	letters      = "p:d:i:m:s:n:t:u:x:c:I:o:r:Q:A:l:D:f:aFebNVh"
	laterLetters = "w:y:S:q:M:B:T:L:E:J:j:K:k:X:W:gzRvCHUOPZG"
)

var longOptions = []getopt.Long{
	{Name: "port", Value: true, Returned: "p"}, {Name: "ib-dev", Value: true, Returned: "d"}, {Name: "ib-port", Value: true, Returned: "i"},
	{Name: "mtu", Value: true, Returned: "m"}, {Name: "size", Value: true, Returned: "s"}, {Name: "iters", Value: true, Returned: "n"},
	{Name: "tx-depth", Value: true, Returned: "t"}, {Name: "qp-timeout", Value: true, Returned: "u"}, {Name: "gid-index", Value: true, Returned: "x"},
	{Name: "connection", Value: true, Returned: "c"}, {Name: "inline_size", Value: true, Returned: "I"}, {Name: "outs", Value: true, Returned: "o"},
	{Name: "rx-depth", Value: true, Returned: "r"}, {Name: "cq-mod", Value: true, Returned: "Q"}, {Name: "atomic_type", Value: true, Returned: "A"},
	{Name: "post_list", Value: true, Returned: "l"}, {Name: "duration", Value: true, Returned: "D"}, {Name: "margin", Value: true, Returned: "f"},
	{Name: "all", Returned: "a"}, {Name: "CPU-freq", Returned: "F"}, {Name: "events", Returned: "e"}, {Name: "bidirectional", Returned: "b"},
	{Name: "no-peak", Returned: "N"}, {Name: "version", Returned: "V"}, {Name: "help", Returned: "h"},
}

// parser is the state while the command line is read.
type parser struct {
	options
	cqModed bool // -Q was given
	margins bool // -f was given
}

// parseOptions reads the command line: the test, then flags and the host in any order.
func parseOptions(args []string) (*options, error) {
	if len(args) == 0 {
		return nil, errors.New("no test given; -h lists the tests")
	}
	p := &parser{}
	if strings.HasPrefix(args[0], "-") {
		// Without a test, only -h and -V are allowed.
		switch opt, _, _ := getopt.New(args, letters+laterLetters, longOptions).Next(); opt {
		case "h":
			return nil, errHelp
		case "V":
			return nil, errVersion
		}
		return nil, fmt.Errorf("the test name must precede %s", args[0])
	}
	t, err := parseTest(args[0])
	if err != nil {
		return nil, err
	}
	p.defaults(t)
	words := getopt.New(args[1:], letters+laterLetters, longOptions)
	for {
		opt, value, err := words.Next()
		if err != nil {
			return nil, err
		}
		if opt == "" {
			break
		}
		if err := p.set(opt, value); err != nil {
			return nil, err
		}
	}
	switch rest := words.Operands(); len(rest) {
	case 0:
	case 1:
		p.host = rest[0]
	default:
		return nil, fmt.Errorf("expected one host, got %d: %s", len(rest), strings.Join(rest, " "))
	}
	return &p.options, p.finish()
}

func (p *parser) defaults(t test) {
	p.options = options{test: t, tcpPort: defaultPort, ibPort: 1, gid: ibtool.NoIndex, conn: verbs.RC, size: 2, iters: 1000, txDepth: 1,
		rxDepth: 1, postList: 1, cqMod: defaultCQMod, wantInline: -1, timeout: defaultTimeout}
	if t.bw {
		p.size, p.txDepth = 1<<16, 128
		if t.verb == verbWrite {
			p.iters = 5000
		}
	}
	if t.verb == verbSend {
		p.rxDepth = defaultRxDepth
	}
	if t.verb == verbAtomic {
		p.size = 8
	}
}

func (p *parser) set(opt, value string) (err error) {
	number := func(dst *int, least, most int) {
		*dst, err = ibtool.Number("-"+opt, value, least, most)
	}
	fetches := p.verb == verbRead || p.verb == verbAtomic
	n := 0
	switch opt {
	case "p":
		number(&p.tcpPort, 1, 65535)
	case "d":
		p.device = value
	case "i":
		number(&p.ibPort, 1, 255)
	case "x":
		number(&p.gid, 0, 255)
	case "m":
		number(&p.wantMTU, 256, 4096)
		if err == nil && mtuOf(p.wantMTU) == 0 {
			err = fmt.Errorf("-m: %d is not one of 256, 512, 1024, 2048, 4096", p.wantMTU)
		}
	case "s":
		p.sized = true
		p.size, err = parseSize(value)
	case "n":
		number(&p.iters, minIters, maxIters)
	case "t":
		number(&p.txDepth, 1, maxDepth)
	case "r":
		number(&p.rxDepth, 1, maxRxDepth)
		if err == nil && p.verb != verbSend && p.rxDepth > 1 {
			err = fmt.Errorf("-r: only send tests have a receive queue depth")
		}
	case "u":
		number(&n, 0, 31)
		p.timeout = uint8(n)
	case "c":
		err = p.setConn(value)
	case "I":
		number(&p.wantInline, 0, maxInline)
		if fetches {
			err = fmt.Errorf("-I: a %v test sends nothing inline", p.test)
		}
	case "o":
		number(&p.outReads, 1, 255)
		if !fetches {
			err = fmt.Errorf("-o: there are no reads in a %v test", p.test)
		}
	case "Q":
		p.cqModed = true
		number(&p.cqMod, 1, maxCQMod)
	case "A":
		switch {
		case p.verb != verbAtomic:
			err = fmt.Errorf("-A: there are no atomics in a %v test", p.test)
		case value == "CMP_AND_SWAP":
			p.swap = true
		case value == "FETCH_AND_ADD":
			p.swap = false
		default:
			err = fmt.Errorf("-A: %q is not one of CMP_AND_SWAP, FETCH_AND_ADD", value)
		}
	case "l":
		number(&p.postList, 1, maxPostList)
	case "D":
		number(&n, 1, 1<<30)
		p.duration = time.Duration(n) * time.Second
	case "f":
		p.margins = true
		number(&n, 0, 1<<30)
		p.margin = time.Duration(n) * time.Second
	case "a":
		p.all = true
	case "e":
		p.events = true
	case "b":
		p.both = true
	case "N":
		p.noPeak = true
	case "F": // suppresses a warning that this tool does not print
	case "V":
		return errVersion
	case "h":
		return errHelp
	default:
		return fmt.Errorf("-%s: an option of perftest that this tool does not have: %w", opt, ucs.ErrUnsupported)
	}
	return err
}

func (p *parser) setConn(value string) error {
	switch value {
	case "RC":
		p.conn = verbs.RC
	case "UC":
		p.conn = verbs.UC
		if p.verb == verbRead || p.verb == verbAtomic {
			return fmt.Errorf("-c: UC has no %s", verbNames[p.verb])
		}
	case "UD":
		p.conn = verbs.UD
		if p.verb != verbSend {
			return fmt.Errorf("-c: UD only sends")
		}
	case "XRC", "DC", "SRD", "RawEth":
		return fmt.Errorf("-c: %s is a transport of perftest that this tool does not have: %w", value, ucs.ErrUnsupported)
	default:
		return fmt.Errorf("-c: %q is not one of RC, UC, UD", value)
	}
	return nil
}

// parseSize reads a number of bytes, with an optional factor K or M.
func parseSize(value string) (int, error) {
	digits, factor := value, 1
	if s, ok := strings.CutSuffix(value, "K"); ok {
		digits, factor = s, 1<<10
	} else if s, ok := strings.CutSuffix(value, "M"); ok {
		digits, factor = s, 1<<20
	}
	n, err := strconv.ParseInt(digits, 0, 32)
	if err != nil || n < 1 || n > int64(maxSize/factor) {
		return 0, fmt.Errorf("-s: %q is not a size from 1 to %d", value, maxSize)
	}
	return int(n) * factor, nil
}

// finish rejects options that exclude each other, and fills in dependent defaults;
// force_dependecies, perftest_parameters.c.
func (p *parser) finish() error {
	if p.duration == 0 {
		p.txDepth = min(p.txDepth, p.iters)
		if p.verb == verbSend {
			p.rxDepth = min(p.rxDepth, p.iters)
		}
		if p.conn != verbs.RC && p.rxDepth == defaultRxDepth {
			// A datagram that finds no receive is dropped.
			p.rxDepth = min(p.iters, maxUCRxDepth)
		}
	}
	switch {
	case p.verb == verbAtomic && (p.size != 8 || p.all):
		return errors.New("an atomic has 8 bytes")
	case p.events && p.verb == verbWrite:
		return errors.New("-e: the target of a write gets no event")
	case p.events && p.both && p.verb == verbSend:
		return fmt.Errorf("-e with -b: %w", ucs.ErrUnsupported)
	case p.both && !p.bw:
		return errors.New("-b: only bandwidth tests go both ways")
	case p.noPeak && !p.bw:
		return errors.New("-N: only bandwidth tests have a peak")
	case p.postList > 1 && !p.bw:
		return errors.New("-l: only bandwidth tests post lists")
	case p.postList > p.txDepth:
		return fmt.Errorf("-l: a list of %d does not fit a send queue of %d (-t)", p.postList, p.txDepth)
	case p.duration > 0 && p.events:
		return errors.New("-D cannot be combined with events (-e)")
	case p.duration > 0 && p.all:
		return errors.New("-D cannot be combined with all sizes (-a)")
	case p.postList > 1 && p.duration == 0 && p.iters%p.postList != 0:
		return fmt.Errorf("-n: %d is not a multiple of lists of %d", p.iters, p.postList)
	}
	if p.size > cqModLimit && p.conn != verbs.UD && !p.all && !p.events && !p.cqModed {
		p.cqMod = 1 // else the result would be too coarse
	}
	p.cqMod = min(p.cqMod, p.txDepth)
	if p.postList > 1 {
		if !p.cqModed {
			p.cqMod = p.postList
		} else if p.postList%p.cqMod != 0 {
			return fmt.Errorf("-l: %d is not a multiple of -Q %d", p.postList, p.cqMod)
		}
	}
	if p.all {
		p.size = allSizes
	}
	if p.duration > 0 {
		p.noPeak = true
		if !p.margins {
			p.margin = (p.duration / 4).Truncate(time.Second)
		}
		if p.duration <= 2*p.margin {
			return fmt.Errorf("-D: %v must exceed two margins (-f) of %v", p.duration, p.margin)
		}
	}
	if p.verb == verbSend && p.bw && p.host == "" && !p.both {
		p.noPeak = true // the receiver does not know when a message starts
	}
	return nil
}

// mtuOf returns the MTU with this size in bytes, 0 if there is none.
func mtuOf(bytes int) verbs.MTU {
	for m := verbs.MTU256; m <= verbs.MTU4096; m++ {
		if m.Bytes() == bytes {
			return m
		}
	}
	return 0
}
