//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/ucx-go/ucx/internal/getopt"
)

// Defaults and limits of librdmacm/examples/rping.c.
const (
	defaultPort = 7174
	defaultSize = 64
	minSize     = 23 // room for the head of a text; see fill
	maxSize     = 64<<10 - 1
)

// options are the parsed command line options.
type options struct {
	server     bool
	addr       netip.AddrPort
	source     netip.AddrPort // source address of the client, set by -I
	persistent bool
	count      int // 0: unlimited
	size       int
	verbose    bool
	validate   bool
	debug      bool
	ownQP      bool
}

var (
	errUsage = errors.New("usage")
	errHelp  = errors.New("help wanted")
)

func parseOptions(args []string) (*options, error) {
	o := &options{size: defaultSize}
	addr, port := netip.IPv4Unspecified(), uint16(defaultPort)
	role := false
	var invalid error // the last invalid value; like C, parsing continues after it
	p := getopt.New(args, "a:I:Pp:C:S:t:scvVdq", nil)
	for {
		opt, value, err := p.Next()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		n, _ := strconv.Atoi(value) // 0 if it is not a number, like atoi
		switch opt {
		case getopt.Help:
			return nil, errHelp
		case "":
			switch {
			case invalid != nil:
				return nil, invalid
			case len(p.Operands()) > 0:
				return nil, fmt.Errorf("%w: unexpected argument %q", errUsage, p.Operands()[0])
			case !role:
				return nil, fmt.Errorf("%w: -s or -c is needed", errUsage)
			}
			o.addr = netip.AddrPortFrom(addr, port)
			return o, nil
		case "a":
			if addr, err = lookup(value); err != nil {
				invalid = err
			}
		case "I":
			var source netip.Addr
			if source, err = lookup(value); err != nil {
				invalid = err
			}
			o.source = netip.AddrPortFrom(source, 0)
		case "P":
			o.persistent = true
		case "p":
			if port = uint16(n); int(port) != n || !isNumber(value) {
				invalid = fmt.Errorf("Invalid port %s (valid range is 0 to 65535)", value) //lint:ignore ST1005 as C's words
			}
		case "s", "c":
			o.server, role = opt == "s", true
		case "S":
			if o.size = n; n < minSize || n > maxSize {
				invalid = fmt.Errorf("Invalid size %s (valid range is %d to %d)", value, minSize, maxSize) //lint:ignore ST1005 C's words
			}
		case "C":
			if o.count = n; n < 0 || !isNumber(value) {
				invalid = fmt.Errorf("Invalid count %s", value) //lint:ignore ST1005 C's words
			}
		case "v":
			o.verbose = true
		case "V":
			o.validate = true
		case "d":
			o.debug = true
		case "q":
			o.ownQP = true
		default:
			return nil, errUsage
		}
	}
}

func isNumber(value string) bool { _, err := strconv.Atoi(value); return err == nil }

// lookup returns the first address of a host.
func lookup(host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a, nil
	}
	list, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
	if err == nil && len(list) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("getaddrinfo of %q failed (%w) - invalid hostname or IP address", host, err)
	}
	return list[0].Unmap(), nil
}

func usage(w io.Writer) {
	fmt.Fprint(w, `rping -s [-vVdqP] [-S size] [-a addr] [-p port]
rping -c [-vVdq] [-S size] [-C count] [-I addr] -a addr [-p port]
	-c		client side
	-I		Source address to bind to for client.
	-s		server side.  To bind to any address with IPv6 use -a ::0
	-v		display ping data to stdout
	-V		validate ping data
	-d		debug printfs
	-S size 	ping data size
	-C count	ping count times
	-a addr		address
	-p port		port
	-P		persistent server mode allowing multiple connections
	-q		use self-created, self-modified QP
`)
}
