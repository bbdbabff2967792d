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

// conversation runs commands and writes down what follows. Each has the form
//
//	verb arguments... flag key=value...
//
// and names what it makes, so that later ones can refer to it.
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
	queues  map[string]*ucp.AMQueue   // by the side
	windows map[string]*opening
	feats   ucp.Features // of the workers
	memory  []place
	faults  []func() bool // each says whether it has happened

	numbers map[int]int // of what is written down, by the tap's
	number  int
	waiting *speaker // whose keepalive is written down

	eps, reqs, msgs *names
}

// speaker is a worker, or a peer that speaks for itself.
type speaker struct {
	*side
	name   string
	uuid   uint64
	addrs  [][]byte // of its ifaces
	closed bool
	raw    *rawPeer // instead of a worker
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

// opening is memory that a side has opened to its peers, with the keys that they
// have unpacked.
type opening struct {
	at   *speaker
	mem  *ucp.Memory
	buf  []byte
	keys map[*end]*ucp.Rkey
}

// place is memory with a name.
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

// takes adds that a side takes a message.
func (c *conversation) takes(who string, number int) { c.lists(who+" takes #", number) }

// lists adds a number behind a prefix, to the last line if that has it already.
func (c *conversation) lists(prefix string, number int) {
	if n := len(c.out); n > 0 && strings.HasPrefix(c.out[n-1], prefix) && !c.muted {
		c.out[n-1] += fmt.Sprintf(" #%d", number)
		return
	}
	c.say(prefix + strconv.Itoa(number))
}

// side names the side that has an iface.
func (c *conversation) side(addr []byte) string {
	for _, s := range c.sides {
		if slices.ContainsFunc(s.addrs, func(a []byte) bool { return bytes.Equal(a, addr) }) {
			return s.name
		}
	}
	return "nobody"
}

// worker names a worker by its id.
func (c *conversation) worker(uuid uint64) string {
	for _, s := range c.sides {
		if s.uuid == uuid {
			return s.name
		}
	}
	return "unknown"
}

// place names an address.
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
