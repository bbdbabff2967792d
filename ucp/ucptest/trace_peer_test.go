//go:build linux

package ucptest

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// rawPeer is a peer without a worker: it sends the messages that commands specify, as another
// implementation might, and ignores those that it receives.
type rawPeer struct {
	domain uct.MemoryDomain
	worker *uct.Worker
	iface  uct.Iface
	like   *proto.WorkerAddress // address of a worker on the same ground
	uuid   uint64
	ends   map[string]uct.Endpoint // to the other sides
	memory []uct.MemHandle         // memory open to them
}

// peer NAME [uuid=low|high] opens a raw peer.
func (c *conversation) peer(a *arguments) {
	name := a.next()
	s := &speaker{name: name, uuid: 1, raw: &rawPeer{ends: make(map[string]uct.Endpoint)}}
	if a.setting("uuid", "low") == "high" {
		s.uuid = 1<<64 - 1
	}
	p := s.raw
	p.uuid = s.uuid
	p.like = c.rig.parsed(c.sides[0].address())
	var err error
	if p.worker, err = uct.NewWorker(); err != nil {
		c.t.Fatal(err)
	}
	component := c.rig.sim.component
	if p.domain, err = component.OpenMD(component.Name(), nil); err != nil {
		c.t.Fatal(err)
	}
	p.iface, err = p.domain.OpenIface(p.worker, uct.IfaceParams{Transport: component.Name(), Device: component.Name() + "0"}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for id := range uct.AMID(uct.MaxAMIDs) { // the tap sees what arrives here
		p.iface.SetAMHandler(id, func(*uct.Source, []byte, *uct.AMDesc) error { return nil })
	}
	s.addrs = [][]byte{p.iface.Address()}
	c.sides = append(c.sides, s)
}

func (p *rawPeer) progress() int { return p.worker.Progress() }

func (p *rawPeer) close(t *testing.T) {
	for _, e := range p.ends {
		e.Close()
	}
	for _, m := range p.memory {
		if err := p.domain.Deregister(m); err != nil {
			t.Errorf("closing memory of a peer: %v", err)
		}
	}
	for _, err := range []error{p.iface.Close(), p.worker.Close(), p.domain.Close()} {
		if err != nil {
			t.Errorf("closing a peer: %v", err)
		}
	}
}

// open opens memory to the other sides.
func (p *rawPeer) open(b []byte) error {
	m, err := p.domain.Register(b, uct.AccessRemoteGet|uct.AccessRemotePut|uct.AccessRemoteAtomic)
	if err == nil {
		p.memory = append(p.memory, m)
	}
	return err
}

// workerAddress returns the address of the peer: a worker's address with one device.
func (p *rawPeer) workerAddress() proto.WorkerAddress {
	a := *p.like.Clone()
	a.UUID, a.Token = p.uuid, nil
	a.Devices = a.Devices[:1]
	a.Devices[0].Ifaces = a.Devices[0].Ifaces[:1]
	a.Devices[0].Ifaces[0].Addr = p.iface.Address()
	return a
}

func (p *rawPeer) address(t *testing.T) []byte {
	a := p.workerAddress()
	b, err := a.Append(nil, proto.FormWorker)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// to returns the peer's transport endpoint to another side.
func (p *rawPeer) to(c *conversation, s *speaker) uct.Endpoint {
	if e := p.ends[s.name]; e != nil {
		return e
	}
	e, err := p.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: p.iface.DeviceAddress(), IfaceAddr: s.addrs[0]})
	if err != nil {
		c.t.Fatal(err)
	}
	p.ends[s.name] = e
	return e
}

// rawBytes is a packer of a message.
type rawBytes []byte

// Pack implements uct.Packer.
func (b rawBytes) Pack(dst []byte) int { return copy(dst, b) }

// headers are the headers that inject can send.
var headers = map[proto.AMID]any{
	proto.IDWireup: proto.Wireup{}, proto.IDEagerOnly: proto.EagerOnly{}, proto.IDEagerFirst: proto.EagerFirst{},
	proto.IDEagerMiddle: proto.EagerMiddle{}, proto.IDEagerSyncOnly: proto.EagerSyncOnly{}, proto.IDEagerSyncFirst: proto.EagerSyncFirst{},
	proto.IDEagerSyncAck: proto.EagerSyncAck{}, proto.IDOffloadSyncAck: proto.OffloadSyncAck{},
	proto.IDRndvRTS: proto.RndvRTS{}, proto.IDRndvRTR: proto.RndvRTR{}, proto.IDRndvData: proto.RndvData{},
	proto.IDRndvATS: proto.RndvAck{HasSize: true}, proto.IDRndvATP: proto.RndvAck{HasSize: true},
	proto.IDPut: proto.Put{}, proto.IDGetReq: proto.GetReq{}, proto.IDGetRep: proto.GetRep{},
	proto.IDAtomicReq: proto.AtomicReq{}, proto.IDAtomicRep: proto.AtomicRep{}, proto.IDCmpl: proto.Cmpl{},
	proto.IDStreamData: proto.StreamData{}, proto.IDEpClose: proto.EpClose{},
}

// inject PEER SIDE MESSAGE [FIELD=VALUE...] [bytes=N [of=TAG+OFFSET]] [bare] [key=empty|md0] sends
// a message of a raw peer: the message by name or number, the fields as in a trace, ids by name.
// Payload follows the header: bytes of a message (of=TAG+OFFSET) or zeros. A bare message has no
// header. A key is for memory that needs none: it is empty, or names a domain.
func (c *conversation) inject(a *arguments) {
	from, to, what := c.speakerAt(a.next()), c.speakerAt(a.next()), a.next()
	id := proto.AMID(0)
	for ; id < uct.MaxAMIDs && id.String() != what; id++ {
	}
	if id == uct.MaxAMIDs {
		id = proto.AMID(a.number(what))
	}
	var msg []byte
	n := a.number(a.setting("bytes", "0"))
	if h, ok := headers[id]; ok && !a.flag("bare") {
		v := reflect.New(reflect.TypeOf(h)).Elem()
		v.Set(reflect.ValueOf(h))
		c.fill(from, v, a)
		if w, ok := v.Interface().(proto.Wireup); ok {
			var err error
			if msg, err = w.Append(nil); err != nil {
				c.t.Fatalf("%q: %v", a.line, err)
			}
		} else {
			msg = v.Interface().(interface{ Append([]byte) []byte }).Append(nil)
		}
	}
	switch key := proto.NewRkey(ucs.MemoryHost.Wire()); a.setting("key", "none") {
	case "empty":
		msg = key.Append(msg)
	case "md0":
		if err := key.Add(0, nil); err != nil {
			c.t.Fatal(err)
		}
		msg = key.Append(msg)
	}
	payload := make([]byte, n)
	if tag, off, ok := strings.Cut(a.setting("of", ""), "+"); ok {
		payload = ucttest.Pattern(a.number(off)+n, uint64(a.number(tag)))[a.number(off):]
	}
	msg = append(msg, payload...)
	if _, err := from.raw.to(c, to).AMBcopy(uct.AMID(id), rawBytes(msg), 0, nil); err != nil {
		c.t.Fatalf("%q: %v", a.line, err)
	}
}

// fill sets the fields of a header.
func (c *conversation) fill(from *speaker, v reflect.Value, a *arguments) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			c.fill(from, v.Field(i), a)
			continue
		}
		if f.Type == reflect.TypeFor[proto.WorkerAddress]() {
			addr := proto.WorkerAddress{Flags: proto.AddressHasUUID, UUID: from.uuid}
			if a.setting("address", "short") == "full" {
				addr = from.raw.workerAddress()
			}
			v.Field(i).Set(reflect.ValueOf(addr))
			continue
		}
		text := a.setting(strings.ToLower(f.Name), "")
		if text == "" {
			continue
		}
		switch v.Field(i).Interface().(type) {
		case proto.EndpointID:
			v.Field(i).SetUint(c.eps.value(text))
			continue
		case proto.RequestID:
			v.Field(i).SetUint(c.reqs.value(text))
			continue
		case proto.MessageID:
			v.Field(i).SetUint(c.msgs.value(text))
			continue
		case bool:
			v.Field(i).SetBool(text == "true")
			continue
		}
		if f.Name == "Address" && !strings.HasPrefix(text, "0x") {
			name, off, _ := strings.Cut(text, "+")
			addr := addressOf(c.windows[name].buf)
			if off != "" {
				addr += uint64(a.number(off))
			}
			v.Field(i).SetUint(addr)
			continue
		}
		if n, ok := spelled(v.Field(i).Interface(), text); ok {
			v.Field(i).SetUint(n)
			continue
		}
		n := a.number(text)
		if v.Field(i).CanUint() {
			v.Field(i).SetUint(uint64(n))
		} else {
			v.Field(i).SetInt(int64(n))
		}
	}
}

// spelled parses values that have names.
func spelled(like any, text string) (uint64, bool) {
	for n := range uint64(32) {
		known := ""
		switch like.(type) {
		case proto.WireupType:
			known = proto.WireupType(n).String()
		case proto.ErrMode:
			known = errModes[proto.ErrMode(n)]
		case proto.RndvOp:
			known = rndvOps[proto.RndvOp(n)]
		case uct.AtomicOp:
			known = uct.AtomicOp(n).String()
		}
		if known == text {
			return n, true
		}
	}
	return 0, false
}

// value returns the value of a name, a new one for a new name.
func (n *names) value(name string) uint64 {
	for v, known := range n.known {
		if known == name {
			return v
		}
	}
	i, owner, ok := strings.Cut(strings.TrimPrefix(name, n.prefix), "@")
	number, err := strconv.Atoi(i)
	if !ok || err != nil {
		panic(fmt.Sprintf("%q is no name of an id", name))
	}
	v := uint64(number)<<8 | uint64(owner[0]) | 1<<40 // differs from all real values
	n.known[v] = name
	n.count[owner] = max(n.count[owner], number)
	return v
}
