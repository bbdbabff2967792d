package ucptest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// grounds are the simulated transports of traces.
var grounds = map[string]transport{
	// Registered memory is opened by keys.
	"keys": simulate("keys", sim.Options{}),

	// Memory needs no key: a rendezvous can read and write it.
	"open": simulate("open", sim.Options{Keyless: true}),

	// So it does here, on two devices; reading or writing alone.
	"lanes": simulate("lanes", sim.Options{Keyless: true, Devices: 2}),
	"puts":  simulate("puts", sim.Options{Keyless: true, Attr: without(allGets, false)}),

	// What is sent without copies must be registered, and nothing can be.
	"unregistered": simulate("unregistered", sim.Options{Keyless: true, DomainAttr: func(a *uct.MDAttr) {
		a.Flags = a.Flags&^uct.MDFlagRegister | uct.MDFlagNeedMemh
	}}),

	// The transport copies long pieces at once.
	"large": simulate("large", sim.Options{Attr: func(_ int, a *uct.IfaceAttr) {
		a.Put.MaxBcopy, a.Get.MaxBcopy = 256<<10, 256<<10
	}}),

	// Messages are all there is.
	"messages": simulate("messages", sim.Options{Attr: without(allPuts|allGets, true)}),

	// Allocated memory can be mapped by peers.
	"mapped": simulateMapped("mapped"),
}

// conversation runs commands and writes down what follows. Each has the form
//
//	verb arguments... flag key=value...
//
// and names what it makes, so that later ones can refer to it. The verbs are in
// the table below.
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
	windows map[string]*opening
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

// verbs are the commands.
var verbs = map[string]func(c *conversation, a *arguments){
	"setup": (*conversation).setup, "open": (*conversation).open, "connect": (*conversation).connect,
	"send": (*conversation).send, "recv": (*conversation).recv, "peek": (*conversation).peek, "take": (*conversation).take,
	"window": (*conversation).window, "put": (*conversation).put, "get": (*conversation).get, "atomic": (*conversation).atomic,
	"flush": (*conversation).flush, "fence": (*conversation).fence, "close": (*conversation).closing,
	"cancel": (*conversation).cancel, "kill": (*conversation).kill, "drop": (*conversation).drop, "fault": (*conversation).fault,
	"run": (*conversation).run, "step": (*conversation).step, "lanes": (*conversation).lanes, "counts": (*conversation).counts,
	"peer": (*conversation).peer, "inject": (*conversation).inject,
	"keepalive": (*conversation).keepalive, "unmap": (*conversation).unmap, "show": (*conversation).show,
	"state": (*conversation).state, "quit": (*conversation).quit, "expect": (*conversation).expect,
}

// arguments are those of a command.
type arguments struct {
	t     *testing.T
	line  string
	words []string
	flags map[string]string
}

// next returns the next argument that is neither flag nor setting.
func (a *arguments) next() string {
	a.t.Helper()
	if len(a.words) == 0 {
		a.t.Fatalf("%q lacks an argument", a.line)
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// flag takes a flag that may be there.
func (a *arguments) flag(name string) bool {
	n := len(a.words)
	a.words = slices.DeleteFunc(a.words, func(w string) bool { return w == name })
	return len(a.words) < n
}

// setting takes a key=value that may be there.
func (a *arguments) setting(key, value string) string {
	if v, ok := a.flags[key]; ok {
		delete(a.flags, key)
		return v
	}
	return value
}

// number reads "4096", "64k", "1m" or "0x10".
func (a *arguments) number(s string) int {
	a.t.Helper()
	unit := 1
	switch {
	case strings.HasPrefix(s, "0x"):
	case strings.HasSuffix(s, "k"):
		s, unit = s[:len(s)-1], 1<<10
	case strings.HasSuffix(s, "m"):
		s, unit = s[:len(s)-1], 1<<20
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		a.t.Fatalf("%q: %v", a.line, err)
	}
	return int(n) * unit
}

// command runs a line.
func (c *conversation) command(line string) {
	c.t.Helper()
	a := &arguments{t: c.t, line: line, flags: make(map[string]string)}
	for _, w := range strings.Fields(line) {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.flags[k] = v
		} else {
			a.words = append(a.words, w)
		}
	}
	fn := verbs[a.next()]
	if fn == nil {
		c.t.Fatalf("%q: no such command", line)
	}
	fn(c, a)
	if len(a.words) > 0 || len(a.flags) > 0 {
		c.t.Fatalf("%q: %v, %v mean nothing", line, a.words, a.flags)
	}
	c.protocols()
}

// setup opens two workers on a ground, a and b. Of their ids, by which they settle
// who is first, that of a is the smaller.
func (c *conversation) setup(a *arguments) {
	c.end()
	tr, ok := grounds[a.next()]
	if !ok {
		c.t.Fatalf("%q: no such ground", a.line)
	}
	tr.settings = slices.Clone(tr.settings)
	for _, k := range slices.Sorted(maps.Keys(a.flags)) {
		tr = tr.with(setting{k, a.flags[k]})
		delete(a.flags, k)
	}
	c.rig = newRig(c.t, tr)
	c.net = tr.sim.net
	*c = conversation{t: c.t, out: c.out, rig: c.rig, net: c.net,
		ends: make(map[string]*end), taken: make(map[string]*ucp.TagMessage), windows: make(map[string]*opening),
		numbers: make(map[int]int), eps: newNames("ep"), reqs: newNames("req"), msgs: newNames("msg")}
	c.add("a")
	c.add("b")
	if x, y := c.sides[0], c.sides[1]; x.uuid > y.uuid {
		x.name, y.name = "b", "a"
		c.sides[0], c.sides[1] = y, x
	}
	c.net.Tap(c.event)
}

// open opens a further worker.
func (c *conversation) open(a *arguments) { c.add(a.next()) }

func (c *conversation) add(name string) {
	s := &speaker{side: c.rig.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{}), name: name}
	addr := c.rig.parsed(s.address())
	s.uuid = addr.UUID
	addr.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
		s.addrs = append(s.addrs, f.Addr)
		return true
	})
	c.sides = append(c.sides, s)
}

// end closes what is open, in silence.
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
			w.mem.Unmap()
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

// speakerAt returns a side by name.
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

// connect makes an endpoint: the first two letters of its name are the sides. With
// "peer" it is told of failures.
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

// begin takes the results of a call that starts an operation.
func (c *conversation) begin(o *talk, req *ucp.Request, err error, what string) {
	switch {
	case err != nil:
		c.say(fmt.Sprintf("%s: %s ends in the call: %s", o.at, o.name, statusText(err)))
	case req == nil:
		c.say(fmt.Sprintf("%s: %s is done in the call%s", o.at, o.name, what))
	default:
		o.req = req
		c.ops = append(c.ops, o)
	}
}

// talkAt is a new operation.
func (c *conversation) talkAt(name string, s *speaker) *talk {
	return &talk{name: name, at: s.name, w: s.Worker}
}

// ending writes down how an operation ends.
func (c *conversation) ending(o *talk, what func(info ucp.TagRecvInfo) string) ending {
	return func(err error, info ucp.TagRecvInfo) {
		o.over = true
		text := ""
		if err == nil && what != nil {
			text = what(info)
		}
		c.say(fmt.Sprintf("%s: %s is over: %s%s", o.at, o.name, statusText(err), text))
	}
}

// protocols writes down which protocols operations have taken since.
func (c *conversation) protocols() {
	for _, o := range c.ops {
		if o.over || o.req.Done() {
			continue
		}
		if p := protocolOf(o.req); p != o.protocol {
			o.protocol = p
			c.say(fmt.Sprintf("%s: %s: %s", o.at, o.name, p))
		}
	}
}

// buffer makes memory with a name. A datatype "generic" or "iov=N" makes it the
// buffer of p; a generic one can give up packing at an offset, or unpacking.
func (c *conversation) buffer(name string, n int, a *arguments, p *ucp.RequestParams) []byte {
	b := make([]byte, n)
	c.memory = append(c.memory, place{name, b})
	switch parts := a.number(a.setting("iov", "0")); {
	case a.flag("generic"):
		d := newSlices()
		d.step, d.packStop = 0, a.number(a.setting("stop", "0"))
		if a.flag("fails") {
			d.unpackErr = errUnpack
		}
		p.Buffer = ucp.Generic(d.dt, b, n)
	case parts > 0:
		var list [][]byte
		for i := range parts {
			list = append(list, b[n*i/parts:n*(i+1)/parts])
		}
		p.Buffer = ucp.IOV(list...)
	}
	return b
}

// argument is the buffer as the argument of a call.
func argument(b []byte, p *ucp.RequestParams) []byte {
	if reflect.ValueOf(p.Buffer).IsZero() {
		return b
	}
	return nil
}

func (c *conversation) tag(a *arguments) ucp.Tag { return ucp.Tag(a.number(a.setting("tag", "1"))) }

func (c *conversation) opFlags(a *arguments, p *ucp.RequestParams) {
	for _, name := range slices.Sorted(maps.Keys(flagNames)) {
		if a.flag(name) {
			addFlag(p, flagNames[name])
		}
	}
}

// send NAME ENDPOINT SIZE [sync] [fast|multi|now] [generic|iov=N|from=WINDOW] [tag=T]
func (c *conversation) send(a *arguments) {
	name, ep, n := a.next(), c.endNamed(a.next()), a.number(a.next())
	o := c.talkAt(name, ep.at)
	p := sendParams(c.ending(o, nil))
	sync, tag := a.flag("sync"), c.tag(a)
	c.opFlags(a, p)
	var b []byte
	if from := a.setting("from", ""); from != "" {
		b = c.windows[from].buf[:n]
	} else {
		b = c.buffer(name, n, a, p)
	}
	ucttest.Fill(b, uint64(tag))
	start := ep.TagSend
	if sync {
		start = ep.TagSendSync
	}
	req, err := start(tag, argument(b, p), p)
	c.begin(o, req, err, "")
}

// recv NAME SIDE SIZE [generic|iov=N] [tag=T] [mask=M] [message=TAKEN]
func (c *conversation) recv(a *arguments) {
	name, s, n := a.next(), c.speakerAt(a.next()), a.number(a.next())
	o := c.talkAt(name, s)
	var b []byte
	got := func(info ucp.TagRecvInfo) string {
		data := "as sent"
		if !bytes.Equal(b[:info.Length], ucttest.Pattern(info.Length, uint64(info.SenderTag))) {
			data = "not as sent"
		}
		return fmt.Sprintf(", tag %#x, %d bytes, %s", uint64(info.SenderTag), info.Length, data)
	}
	var info ucp.TagRecvInfo
	p := recvParams(c.ending(o, got), &info)
	c.opFlags(a, p)
	tag, mask := c.tag(a), ucp.Tag(ucp.FullMask)
	if m := a.setting("mask", ""); m != "" {
		mask = ucp.Tag(a.number(m))
	}
	b = c.buffer(name, n, a, p)
	var req *ucp.Request
	var err error
	if from := a.setting("message", ""); from != "" {
		req, err = c.taken[from].Recv(argument(b, p), p)
	} else {
		req, err = s.TagRecv(tag, mask, argument(b, p), p)
	}
	what := ""
	if req == nil && err == nil {
		what = got(info)
	}
	c.begin(o, req, err, what)
}

// peek SIDE TAG looks for a message.
func (c *conversation) peek(a *arguments) {
	s, tag := c.speakerAt(a.next()), ucp.Tag(a.number(a.next()))
	if info, ok := peekMessage(s.Worker, tag); ok {
		c.say(fmt.Sprintf("%s: a message of tag %#x, %d bytes", s.name, uint64(info.SenderTag), info.Length))
	} else {
		c.say(fmt.Sprintf("%s: no message of tag %#x", s.name, uint64(tag)))
	}
}

// take NAME SIDE TAG takes a message out, to be received by this name.
func (c *conversation) take(a *arguments) {
	name, s, tag := a.next(), c.speakerAt(a.next()), ucp.Tag(a.number(a.next()))
	m, info, ok := takeMessage(s.Worker, tag)
	if !ok {
		c.say(fmt.Sprintf("%s: no message of tag %#x", s.name, uint64(tag)))
		return
	}
	c.taken[name] = m
	c.say(fmt.Sprintf("%s: %s is a message of tag %#x, %d bytes", s.name, name, uint64(info.SenderTag), info.Length))
}

// window NAME SIDE SIZE [allocate] opens memory to peers, or allocates it.
func (c *conversation) window(a *arguments) {
	name, s, n := a.next(), c.speakerAt(a.next()), a.number(a.next())
	w := &opening{at: s, keys: make(map[*end]*ucp.Rkey)}
	var err error
	if a.flag("allocate") {
		if w.mem, err = allocateMemory(s.ctx, n); err == nil {
			w.buf = w.mem.Bytes()
		}
	} else {
		w.buf = make([]byte, n)
		w.mem, err = registerMemory(s.ctx, w.buf)
	}
	if err != nil {
		c.t.Fatalf("%q: %v", a.line, err)
	}
	c.windows[name] = w
	c.memory = append(c.memory, place{name, w.buf})
}

// unmap NAME takes a window away.
func (c *conversation) unmap(a *arguments) {
	w := c.windows[a.next()]
	if err := w.mem.Unmap(); err != nil {
		c.t.Fatalf("%q: %v", a.line, err)
	}
	w.mem = nil
}

// target reads WINDOW or WINDOW+OFFSET and returns its address and key.
func (c *conversation) target(ep *end, text string, a *arguments) (*opening, uint64, *ucp.Rkey) {
	c.t.Helper()
	name, off, _ := strings.Cut(text, "+")
	w := c.windows[name]
	if w == nil {
		c.t.Fatalf("%q: no such window", text)
	}
	addr := addressOf(w.buf)
	if off != "" {
		addr += uint64(a.number(off))
	}
	if w.keys[ep] == nil {
		packed, err := w.mem.PackRkey()
		if err == nil {
			w.keys[ep], err = ep.UnpackRkey(packed)
		}
		if err != nil {
			c.t.Fatalf("%q: %v", text, err)
		}
	}
	return w, addr, w.keys[ep]
}

// put NAME ENDPOINT SIZE WINDOW[+OFFSET] [now] [generic|iov=N]
func (c *conversation) put(a *arguments) {
	name, ep, n := a.next(), c.endNamed(a.next()), a.number(a.next())
	_, addr, key := c.target(ep, a.next(), a)
	o := c.talkAt(name, ep.at)
	p := sendParams(c.ending(o, nil))
	c.opFlags(a, p)
	b := ucttest.Fill(c.buffer(name, n, a, p), 7)
	req, err := ep.Put(argument(b, p), addr, key, p)
	c.begin(o, req, err, "")
}

// get NAME ENDPOINT SIZE WINDOW[+OFFSET] [iov=N]
func (c *conversation) get(a *arguments) {
	name, ep, n := a.next(), c.endNamed(a.next()), a.number(a.next())
	w, addr, key := c.target(ep, a.next(), a)
	o := c.talkAt(name, ep.at)
	var b []byte
	got := func(ucp.TagRecvInfo) string {
		off := int(addr - addressOf(w.buf))
		if bytes.Equal(b, w.buf[off:off+n]) {
			return ", as it is there"
		}
		return ", not as it is there"
	}
	p := sendParams(c.ending(o, got))
	c.opFlags(a, p)
	b = c.buffer(name, n, a, p)
	req, err := ep.Get(argument(b, p), addr, key, p)
	what := ""
	if req == nil && err == nil {
		what = got(ucp.TagRecvInfo{})
	}
	c.begin(o, req, err, what)
}

// atomic NAME ENDPOINT OP SIZE WINDOW[+OFFSET] OPERAND [fetch] [swap=NEW] [now]
func (c *conversation) atomic(a *arguments) {
	name, ep, op, size := a.next(), c.endNamed(a.next()), a.next(), a.number(a.next())
	_, addr, key := c.target(ep, a.next(), a)
	x := uint64(a.number(a.next()))
	o := c.talkAt(name, ep.at)
	var reply []byte
	got := func(ucp.TagRecvInfo) string {
		if reply == nil {
			return ""
		}
		return fmt.Sprintf(", it was %#x", wordOf(reply))
	}
	if a.flag("fetch") {
		reply = make([]byte, size)
	}
	if s := a.setting("swap", ""); s != "" {
		reply = binary.NativeEndian.AppendUint64(nil, uint64(a.number(s)))[:size]
	}
	p := sendParams(c.ending(o, got))
	c.opFlags(a, p)
	req, err := startAtomic(ep.Endpoint, atomicOps[op], x, size, reply, addr, key, p)
	what := ""
	if req == nil && err == nil {
		what = got(ucp.TagRecvInfo{})
	}
	c.begin(o, req, err, what)
}

func wordOf(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// show WINDOW[+OFFSET] SIZE shows a word of memory.
func (c *conversation) show(a *arguments) {
	name, off, _ := strings.Cut(a.next(), "+")
	w := c.windows[name]
	at := 0
	if off != "" {
		at = a.number(off)
	}
	c.say(fmt.Sprintf("%s: %#x", name, wordOf(w.buf[at:at+a.number(a.next())])))
}

// flush NAME ENDPOINT|SIDE
func (c *conversation) flush(a *arguments) {
	name, what := a.next(), a.next()
	if ep := c.ends[what]; ep != nil {
		o := c.talkAt(name, ep.at)
		req, err := ep.Flush(sendParams(c.ending(o, nil)))
		c.begin(o, req, err, "")
		return
	}
	s := c.speakerAt(what)
	o := c.talkAt(name, s)
	req, err := s.Worker.Flush(sendParams(c.ending(o, nil)))
	c.begin(o, req, err, "")
}

// fence SIDE
func (c *conversation) fence(a *arguments) {
	if err := c.speakerAt(a.next()).Fence(); err != nil {
		c.say("fence: " + statusText(err))
	}
}

// close NAME ENDPOINT [force]
func (c *conversation) closing(a *arguments) {
	name, ep := a.next(), c.endNamed(a.next())
	o := c.talkAt(name, ep.at)
	req, err := closeEndpoint(ep.Endpoint, a.flag("force"), sendParams(c.ending(o, nil)))
	c.begin(o, req, err, "")
}

// cancel NAME asks for the end of an operation.
func (c *conversation) cancel(a *arguments) {
	name := a.next()
	for _, o := range c.ops {
		if o.name == name {
			o.w.Cancel(o.req)
			return
		}
	}
	c.t.Fatalf("%q: it is not under way", a.line)
}

// kill SIDE closes a worker without a word to its peers, whose connections break.
// How its own operations end is not of interest.
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

// fault WHAT EFFECT [by=SIDE] makes something happen to the next message of an id, or operation,
// named as in the trace with - for blanks: stall=ROUNDS, drop, fail, late=ROUNDS,
// cut=BYTES.
func (c *conversation) fault(a *arguments) {
	what := a.next()
	var e fault.Effect
	switch {
	case a.flag("drop"):
		e.Drop = ucs.ErrConnectionReset
	case a.flag("fail"):
		e.Fail = ucs.ErrIO
	default:
		e.Stall = a.number(a.setting("stall", "0"))
		e.Late = a.number(a.setting("late", "0"))
		e.Cut = a.number(a.setting("cut", "0"))
	}
	skip := a.number(a.setting("after", "0"))
	before := c.rig.sim.plan
	done := false
	c.faults = append(c.faults, func() bool { return done })
	c.rig.sim.plan = func(op fault.Op) (none fault.Effect) {
		name := strings.ReplaceAll(operations[op.Kind], " ", "-")
		if op.Kind <= fault.AMZcopy {
			name = proto.AMID(op.ID).String()
		}
		if done || name != what {
			if before != nil {
				return before(op)
			}
			return none
		}
		if skip > 0 {
			skip--
			return none
		}
		done = true
		return e
	}
}

// quiet is the number of rounds in which nothing happens before a run is over.
const quiet = 8

// run progresses all sides in turn until nothing happens any more.
func (c *conversation) run(*arguments) {
	for idle, rounds := 0, 0; idle < quiet || c.net.Pending() > 0; idle++ {
		if rounds++; rounds > 10000 {
			c.t.Fatal("the conversation does not end")
		}
		for _, s := range c.sides {
			if c.progress(s) > 0 {
				idle = 0
			}
		}
	}
}

// step SIDE [ROUNDS] progresses one side.
func (c *conversation) step(a *arguments) {
	s := c.speakerAt(a.next())
	rounds := 1
	if len(a.words) > 0 {
		rounds = a.number(a.next())
	}
	for range rounds {
		c.progress(s)
	}
}

func (c *conversation) progress(s *speaker) int {
	n := 0
	switch {
	case s.raw != nil:
		n = s.raw.progress()
	case !s.closed:
		n = s.Progress()
	}
	c.protocols()
	return n
}

// lanes ENDPOINT shows the lanes of an endpoint.
func (c *conversation) lanes(a *arguments) {
	ep := c.endNamed(a.next())
	for _, tr := range ep.Transports() {
		c.say(fmt.Sprintf("%s: %s", ep.name, tr.Device))
	}
}

// counts SIDE shows the counters that say what went wrong.
func (c *conversation) counts(a *arguments) {
	s := c.speakerAt(a.next())
	st := s.Stats()
	c.say(fmt.Sprintf("%s: dropped %d, malformed %d, denied %d, failed %d, endpoints %d",
		s.name, st.Dropped, st.Malformed, st.Denied, st.Failed, st.Endpoints))
}

// state ENDPOINT shows whether an endpoint has failed.
func (c *conversation) state(a *arguments) {
	ep := c.endNamed(a.next())
	c.say(fmt.Sprintf("%s: endpoint %s: %s", ep.at.name, ep.name, statusText(ep.Err())))
}

// expect TEXT says that the log will have a line with this text.
func (c *conversation) expect(a *arguments) {
	c.rig.log.Expect(strings.Join(a.words, " "))
	a.words = nil
}
