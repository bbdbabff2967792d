//go:build linux

package ucptest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// conversation runs commands and records what follows. Each command has the form
//
//	verb arguments... flag key=value...
//
// and names what it creates, so that later commands can refer to it.
type conversation struct {
	t       *testing.T
	out     []string
	muted   bool
	rig     *rig
	net     *sim.Network
	sides   []*speaker
	ends    map[string]*end
	ops     []*talk
	taken   map[string]*ucp.TagMessage
	active  map[string]*ucp.AMMessage // kept by handlers
	queues  map[string]*ucp.AMQueue   // by the name of the side
	windows map[string]*opening
	feats   ucp.Features // of the workers
	memory  []place
	faults  []func() bool // report whether the fault has happened

	numbers map[int]int // numbers in the trace, by the tap's numbers
	number  int
	waiting *speaker // side whose keepalive is recorded

	eps, reqs, msgs *names
}

// speaker is a worker, or a raw peer.
type speaker struct {
	*side
	name   string
	uuid   uint64
	addrs  [][]byte // addresses of its interfaces
	closed bool
	raw    *rawPeer // for a raw peer, which has no worker
}

// end is an endpoint.
type end struct {
	*ucp.Endpoint
	name string
	at   *speaker
}

// talk is an operation.
type talk struct {
	name, at string
	w        *ucp.Worker
	req      *ucp.Request
	protocol string
	over     bool
}

// opening is memory that a side has opened to its peers, with the keys that they have unpacked.
type opening struct {
	at   *speaker
	mem  *ucp.Memory
	buf  []byte
	keys map[*end]*ucp.Rkey
}

// place is a named range of memory.
type place struct {
	name string
	buf  []byte
}

// say adds a line.
func (c *conversation) say(line string) {
	if !c.muted {
		c.out = append(c.out, line)
	}
}

// takes records that a side handles a message.
func (c *conversation) takes(who string, number int) { c.lists(who+" takes #", number) }

// lists appends a number to the last line if it has this prefix, or else to a new line.
func (c *conversation) lists(prefix string, number int) {
	if n := len(c.out); n > 0 && strings.HasPrefix(c.out[n-1], prefix) && !c.muted {
		c.out[n-1] += fmt.Sprintf(" #%d", number)
		return
	}
	c.say(prefix + strconv.Itoa(number))
}

// side returns the name of the side that has an interface.
func (c *conversation) side(addr []byte) string {
	for _, s := range c.sides {
		if slices.ContainsFunc(s.addrs, func(a []byte) bool { return bytes.Equal(a, addr) }) {
			return s.name
		}
	}
	return "nobody"
}

// worker returns the name of a worker, by its id.
func (c *conversation) worker(uuid uint64) string {
	for _, s := range c.sides {
		if s.uuid == uuid {
			return s.name
		}
	}
	return "unknown"
}

// place returns the name of an address.
func (c *conversation) place(addr uint64) string {
	if addr == 0 {
		return "none"
	}
	for _, p := range c.memory {
		if base := addressOf(p.buf); addr >= base && addr < base+uint64(len(p.buf)) {
			if addr == base {
				return p.name
			}
			return fmt.Sprintf("%s+%d", p.name, addr-base)
		}
	}
	return "elsewhere"
}
