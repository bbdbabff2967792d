//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// setup GROUND [active] [SETTING=VALUE...] opens two workers on a ground, a and b, which may use
// active messages. The id of a is smaller than that of b, which decides the order when both
// connect.
func (c *conversation) setup(a *arguments) {
	c.end()
	tr, ok := grounds[a.next()]
	if !ok {
		c.t.Fatalf("%q: no such ground", a.line)
	}
	feats := oneSided | ucp.FeatureStream
	if a.flag("active") {
		feats |= ucp.FeatureAM
	}
	tr.settings = slices.Clone(tr.settings)
	for _, k := range slices.Sorted(maps.Keys(a.flags)) {
		tr = tr.with(setting{k, a.flags[k]})
		delete(a.flags, k)
	}
	c.rig = newRig(c.t, tr)
	c.net = tr.sim.net
	*c = conversation{t: c.t, out: c.out, rig: c.rig, net: c.net,
		ends: make(map[string]*end), taken: make(map[string]*ucp.TagMessage), feats: feats,
		active: make(map[string]*ucp.AMMessage), queues: make(map[string]*ucp.AMQueue), windows: make(map[string]*opening),
		numbers: make(map[int]int), eps: newNames("ep"), reqs: newNames("req"), msgs: newNames("msg")}
	c.add("a")
	c.add("b")
	if x, y := c.sides[0], c.sides[1]; x.uuid > y.uuid {
		x.name, y.name = "b", "a"
		c.sides[0], c.sides[1] = y, x
	}
	c.net.Tap(c.event)
}

// open NAME opens another worker.
func (c *conversation) open(a *arguments) { c.add(a.next()) }

func (c *conversation) add(name string) {
	s := &speaker{side: c.rig.openWith(ucp.ContextParams{Features: c.feats}, ucp.WorkerParams{}), name: name}
	addr := c.rig.parsed(s.address())
	s.uuid = addr.UUID
	addr.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
		s.addrs = append(s.addrs, f.Addr)
		return true
	})
	c.sides = append(c.sides, s)
}

// end closes what is open, without recording it.
func (c *conversation) end() {
	if c.rig == nil {
		return
	}
	for i, happened := range c.faults {
		if !happened() {
			c.t.Errorf("fault %d has not happened", i+1)
		}
	}
	c.muted = true
	for _, w := range c.windows {
		for _, k := range w.keys {
			k.Close()
		}
	}
	for _, s := range c.sides {
		if s.raw != nil {
			s.raw.close(c.t)
		} else if !s.closed {
			s.Worker.Close()
		}
	}
	for _, o := range c.ops {
		o.req.Free()
	}
	for _, w := range c.windows {
		if w.mem != nil {
			w.mem.Close()
		}
	}
	for _, s := range c.rig.sides {
		s.close()
	}
	c.rig.sides = nil
	c.net.Tap(nil)
	c.rig.sim.plan = nil
	c.rig, c.muted = nil, false
}

// speakerAt returns a side by its name.
func (c *conversation) speakerAt(name string) *speaker {
	c.t.Helper()
	for _, s := range c.sides {
		if s.name == name {
			return s
		}
	}
	c.t.Fatalf("there is no %q", name)
	return nil
}

func (c *conversation) endNamed(name string) *end {
	c.t.Helper()
	if e := c.ends[name]; e != nil {
		return e
	}
	c.t.Fatalf("there is no endpoint %q", name)
	return nil
}

// connect ENDPOINT [peer] creates an endpoint: the first two letters of its name are the sides.
// With "peer" it has error handling.
func (c *conversation) connect(a *arguments) {
	name := a.next()
	at, to := c.speakerAt(name[:1]), c.speakerAt(name[1:2])
	p := ucp.EndpointParams{Name: name}
	if a.flag("peer") {
		p.ErrMode = ucp.ErrModePeer
		p.OnError = func(_ *ucp.Endpoint, err error, _ any) {
			c.say(fmt.Sprintf("%s: endpoint %s has failed: %s", at.name, name, statusText(err)))
		}
	}
	if to.raw != nil {
		p.Address = to.raw.address(c.t)
	} else {
		p.Address = to.address()
	}
	ep, err := at.NewEndpoint(p)
	if err != nil {
		c.say(fmt.Sprintf("%s: endpoint %s is not made: %s", at.name, name, statusText(err)))
		return
	}
	c.ends[name] = &end{Endpoint: ep, name: name, at: at}
}

// close NAME ENDPOINT [force]
func (c *conversation) closing(a *arguments) {
	name, ep := a.next(), c.endNamed(a.next())
	o := c.talkAt(name, ep.at)
	req, err := closeEndpoint(ep.Endpoint, a.flag("force"), sendParams(c.ending(o, nil)))
	c.begin(o, req, err, "")
}

// shutdown ENDPOINT shuts an endpoint down with a context that has ended, which cancels operations
// that the peer has not answered.
func (c *conversation) shutdown(a *arguments) {
	ep := c.endNamed(a.next())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	switch err := ep.Shutdown(ctx); {
	case err == nil:
		c.say(ep.at.name + ": shutdown: ok")
	case errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.Canceled):
		c.say(ep.at.name + ": shutdown: " + statusText(err))
	default:
		c.say(ep.at.name + ": shutdown: given up")
	}
}

// kill SIDE closes a worker whose connections break without a disconnect. The results of its own
// operations are not recorded.
func (c *conversation) kill(a *arguments) {
	c.muted = true
	c.quit(a)
	c.muted = false
}

// quit SIDE closes a worker.
func (c *conversation) quit(a *arguments) {
	s := c.speakerAt(a.next())
	s.closed = true
	for _, w := range c.windows {
		for ep, k := range w.keys {
			if ep.at == s {
				k.Close()
				delete(w.keys, ep)
			}
		}
	}
	if err := s.Worker.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// drop breaks all connections.
func (c *conversation) drop(*arguments) { c.net.Drop(ucs.ErrConnectionReset) }

// lanes ENDPOINT prints the lanes of an endpoint.
func (c *conversation) lanes(a *arguments) {
	ep := c.endNamed(a.next())
	for _, tr := range ep.Attr().Transports {
		c.say(fmt.Sprintf("%s: %s", ep.name, tr.Device))
	}
}

// counts SIDE prints the counters of errors.
func (c *conversation) counts(a *arguments) {
	s := c.speakerAt(a.next())
	st := s.Stats()
	c.say(fmt.Sprintf("%s: dropped %d, malformed %d, denied %d, failed %d, endpoints %d",
		s.name, st.Dropped, st.Malformed, st.Denied, st.Failed, st.Endpoints))
}

// state ENDPOINT prints whether an endpoint has failed.
func (c *conversation) state(a *arguments) {
	ep := c.endNamed(a.next())
	c.say(fmt.Sprintf("%s: endpoint %s: %s", ep.at.name, ep.name, statusText(ep.Err())))
}

// allow TEXT permits lines with this text in the log: refusals are logged once a minute.
func (c *conversation) allow(a *arguments) {
	c.rig.log.Allow(strings.Join(a.words, " "))
	a.words = nil
}

// expect TEXT requires a line with this text in the log.
func (c *conversation) expect(a *arguments) {
	c.rig.log.Expect(strings.Join(a.words, " "))
	a.words = nil
}
