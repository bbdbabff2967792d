//go:build linux

package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// chaos is two or three hosts that connect, send, put, flush, cancel and close at random, from
// outside and inside handlers and completions, while their sockets break. Always: completions and
// ends of sources are reported once, messages of an endpoint arrive in order, and nothing is left
// behind.
type chaos struct {
	t      *testing.T
	comp   uct.Component
	rnd    *rand.Rand
	hosts  []*chaosHost
	ops    []*chaosOp
	faults int // rate of faults, 1 being the highest
	depth  int // nesting of callbacks
	total  int // endpoints made
}

// fault reports whether to inject a fault now, with a probability of 1/n at most.
func (c *chaos) fault(n int) bool { return c.pick(n*c.faults) == 0 }

type chaosHost struct {
	*host
	target  []byte // exposed
	mem     uct.MemHandle
	eps     []*chaosEP
	sources map[*uct.Source]*chaosSource
	closed  bool
}

type chaosEP struct {
	c    *chaos
	from *chaosHost
	ep   *endpoint
	peer *chaosHost
	id   uint32
	next uint32
	done bool // closed
	fail int
}

// chaosOp is an operation with a completion, or a pending request.
type chaosOp struct {
	c    *chaos
	name string
	comp uct.Completion
	told int
	want int
}

func (o *chaosOp) Completed(*uct.Completion) {
	if o.told++; o.told > o.want {
		o.c.t.Errorf("%s: told %d times, accepted %d", o.name, o.told, o.want)
	}
	o.c.within()
}

// chaosSource is what a host records about a connection.
type chaosSource struct {
	c    *chaos
	gone int
	last map[uint32]uint32 // number of the last message of each endpoint
}

func (s *chaosSource) SourceGone() {
	if s.gone++; s.gone > 1 {
		s.c.t.Error("the end of a source was told twice")
	}
}

func (c *chaos) pick(n int) int { return c.rnd.IntN(n) }

func (c *chaos) host() *chaosHost { return c.hosts[c.pick(len(c.hosts))] }

// within takes a random step inside some of the callbacks.
func (c *chaos) within() {
	if c.depth > 2 || c.pick(8) != 0 {
		return
	}
	c.depth++
	c.step()
	c.depth--
}

func (c *chaos) open(vars ...string) *chaosHost {
	h := &chaosHost{host: newHostOf(c.t, c.comp, "", vars...), target: make([]byte, 300<<10), sources: make(map[*uct.Source]*chaosSource)}
	h.expose()
	h.iface.SetAMHandler(1, func(src *uct.Source, data []byte, _ *uct.AMDesc) error {
		s := h.sources[src]
		if s == nil || s.gone > 0 {
			s = &chaosSource{c: c, last: make(map[uint32]uint32)}
			h.sources[src] = s
			src.User = s
		}
		id, n := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
		if last, ok := s.last[id]; n != last+1 && (ok || n != 1) {
			c.t.Errorf("endpoint %d: message %d after %d", id, n, last)
		}
		s.last[id] = n
		if c.fault(300) {
			src.Drop(ucs.ErrCanceled)
			return nil
		}
		c.within()
		if c.fault(400) {
			return ucs.ErrInvalidParam
		}
		return nil
	})
	h.iface.reporter.OnError = func(_ uct.Endpoint, user any, err error) {
		e := user.(*chaosEP)
		if e.fail++; e.fail > 1 || e.done {
			c.t.Errorf("endpoint %d: failure %d told, closed %v: %v", e.id, e.fail, e.done, err)
		}
		c.within()
	}
	return h
}

func (h *chaosHost) expose() {
	var err error
	if h.mem, err = h.md.Register(h.target, uct.AccessRemotePut); err != nil && !errors.Is(err, ucs.ErrUnsupported) {
		h.t.Fatal(err)
	}
}

func (h *chaosHost) hide() {
	if h.mem == nil {
		return
	}
	if err := h.md.Deregister(h.mem); err != nil {
		h.t.Error(err)
	}
}

func (c *chaos) connect(h, o *chaosHost) {
	if h.closed || len(h.eps) > 12 {
		return
	}
	c.total++
	e := &chaosEP{c: c, from: h, peer: o, id: uint32(c.total)}
	ep, err := h.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: o.iface.DeviceAddress(), IfaceAddr: o.iface.Address(), UserData: e})
	if err != nil {
		c.t.Fatal(err)
	}
	e.ep = ep.(*endpoint)
	h.eps = append(h.eps, e)
}

func (c *chaos) close(e *chaosEP) {
	if e.done {
		return
	}
	e.ep.PendingPurge(func(p *uct.Pending) { p.Owner.(*chaosPending).purged = true })
	e.done = true
	for i, o := range e.from.eps {
		if o == e {
			e.from.eps = append(e.from.eps[:i:i], e.from.eps[i+1:]...)
			break
		}
	}
	e.ep.Close()
}

// op starts an operation and records its completion.
func (c *chaos) op(name string, start func(*uct.Completion) error) error {
	o := &chaosOp{c: c, name: name, want: 1}
	o.comp.Owner, o.comp.Count = o, 1
	c.ops = append(c.ops, o)
	err := start(&o.comp)
	if err != ucs.InProgress {
		if o.told != 0 {
			c.t.Errorf("%s: %v, and told", name, err)
		}
		o.want = 0
	}
	return err
}

// message sends the next message of an endpoint.
func (c *chaos) message(e *chaosEP) error {
	n := e.next + 1
	header := uint64(n)<<32 | uint64(e.id)
	body := make([]byte, []int{0, 10, 3000, 8000}[c.pick(4)])
	var flags uct.SendFlags
	if c.pick(5) == 0 {
		flags = uct.SendNow
	}
	var err error
	switch c.pick(3) {
	case 0:
		err = c.op("short", func(comp *uct.Completion) error { return e.ep.AMShort(1, header, body, flags, comp) })
	case 1:
		err = c.op("bcopy", func(comp *uct.Completion) error {
			_, err := e.ep.AMBcopy(1, headPacker(header), flags, comp)
			return err
		})
	case 2:
		err = c.op("zcopy", func(comp *uct.Completion) error {
			return e.ep.AMZcopy(1, headPacker(header), []uct.IOV{{Data: make([]byte, c.pick(60000))}, {Data: body[:len(body)/8]}}, flags, comp)
		})
	}
	if err == nil || err == ucs.InProgress {
		e.next = n
	}
	return err
}

type headPacker uint64

func (h headPacker) Pack(dst []byte) int {
	binary.LittleEndian.PutUint64(dst, uint64(h))
	return 8
}

// chaosPending sends one message when it can.
type chaosPending struct {
	pend   uct.Pending
	c      *chaos
	e      *chaosEP
	purged bool
	calls  int
}

func (p *chaosPending) Dispatch(*uct.Pending) error {
	if p.purged || p.e.done {
		p.c.t.Error("dispatched after it was purged")
	}
	if p.calls++; p.calls%3 == 0 {
		p.c.within()
		if p.e.done {
			return nil
		}
	}
	err := p.c.message(p.e)
	if err == ucs.ErrNoResource {
		return err
	}
	return nil
}

func (c *chaos) step() {
	h := c.host()
	if h.closed {
		return
	}
	if len(h.eps) == 0 || c.pick(40) == 0 {
		c.connect(h, c.host())
		return
	}
	e := h.eps[c.pick(len(h.eps))]
	switch c.pick(30) {
	case 0:
		if c.fault(1) {
			c.close(e)
		}
	case 1:
		if conn := e.ep.conn; conn != nil && conn.fd >= 0 && c.fault(4) { // a fault of the kernel
			unix.Shutdown(int(conn.fd), []int{unix.SHUT_RD, unix.SHUT_WR, unix.SHUT_RDWR}[c.pick(3)])
		}
	case 2:
		if conn := h.iface.conns; conn != nil && conn.fd >= 0 && c.fault(8) {
			unix.SetsockoptLinger(int(conn.fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
	case 3:
		if c.fault(6) {
			e.ep.Flush(uct.FlushCancel, nil)
		}
	case 4:
		c.op("check", e.ep.Check)
	case 5, 6:
		c.op("local flush", func(comp *uct.Completion) error { return e.ep.Flush(uct.FlushLocal, comp) })
	case 7, 8:
		c.op("remote flush", func(comp *uct.Completion) error { return e.ep.Flush(uct.FlushRemote, comp) })
	case 9, 10, 11:
		n := []int{0, 1, 1000, 70000, 300 << 10}[c.pick(5)]
		c.op("put", func(comp *uct.Completion) error {
			return e.ep.PutZcopy([]uct.IOV{{Data: make([]byte, n)}}, addressOf(e.peer.target), nil, comp)
		})
	case 12:
		if c.fault(20) {
			h.hide()
			h.expose()
		}
	case 13, 14:
		if p := (&chaosPending{c: c, e: e}); true {
			p.pend.Owner = p
			e.ep.PendingAdd(&p.pend)
		}
	case 15:
		h.w.Arm()
	default:
		c.message(e)
	}
}

func TestChaos(t *testing.T) { runChaos(t, component{}) }

// TestChaosOfTLS breaks connections during handshakes, too, and between records.
func TestChaosOfTLS(t *testing.T) {
	runChaos(t, tlsComponent(t, certtest.New().Mutual("peer")))
}

func runChaos(t *testing.T, comp uct.Component) {
	for seed := range chaosSeeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			before := openFDs(t)
			c := &chaos{t: t, comp: comp, rnd: rand.New(rand.NewPCG(seed, 1)), faults: []int{1, 3, 10, 50}[seed%4]}
			for range 2 + c.pick(2) {
				vars := []string{"MAX_CONN_RETRIES=3"}
				if c.pick(2) == 0 {
					vars = append(vars, "SNDBUF=8k")
				}
				if c.pick(2) == 0 {
					vars = append(vars, "RCVBUF=4k")
				}
				c.hosts = append(c.hosts, c.open(vars...))
			}
			for range 3000 {
				switch c.pick(3) {
				case 0:
					c.step()
				default:
					c.host().w.Progress()
				}
			}
			for _, h := range c.hosts {
				for len(h.eps) > 0 {
					c.close(h.eps[0])
				}
			}
			for _, h := range c.hosts {
				h.closed = true
			}
			for _, h := range c.hosts {
				h.hide()
				h.close()
				for _, s := range h.sources {
					if s.gone != 1 {
						t.Errorf("the end of a source was told %d times", s.gone)
					}
				}
			}
			told := 0
			for _, o := range c.ops {
				if o.told != o.want {
					t.Errorf("%s: told %d times, accepted %d", o.name, o.told, o.want)
				}
				told += o.told
			}
			if after := openFDs(t); after != before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
			if testing.Verbose() {
				t.Logf("%d endpoints, %d operations, %d completions", c.total, len(c.ops), told)
			}
		})
	}
}

// chaosSeeds is the number of runs; with the race detector it is a few for each rate of faults.
func chaosSeeds() uint64 {
	if race.Enabled {
		return 12
	}
	return 40
}
