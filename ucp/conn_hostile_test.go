package ucp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// duo is a server and a client, in one process.
type duo struct {
	testing.TB
	c, s        *Worker
	l           *Listener
	there, back *Endpoint // of the last connection
	sends       []*Request
}

func newDuo(t testing.TB, settings ...string) *duo {
	t.Helper()
	ctx := targetContext(t, append([]string{"TLS", "tcp,posix", "NET_DEVICES", "lo"}, settings...)...)
	d := &duo{TB: t, c: openTarget(t, ctx), s: openTarget(t, ctx)}
	var err error
	d.l, err = d.s.NewListener(ListenerParams{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OnAccept: func(ep *Endpoint) { d.back = ep }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, w := range []*Worker{d.c, d.s} {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// dial begins to connect, with a message behind it.
func (d *duo) dial() {
	d.Helper()
	var err error
	d.back = nil
	if d.there, err = d.c.NewEndpoint(EndpointParams{RemoteAddr: d.l.Addr(), ErrMode: ErrModePeer}); err != nil {
		d.Fatal(err)
	}
	req, err := d.there.TagSendSync(1, make([]byte, 8), nil)
	if err != nil {
		d.Fatal(err)
	}
	recv, err := d.s.TagRecv(1, FullMask, make([]byte, 8), nil)
	if err != nil {
		d.Fatal(err)
	}
	d.sends = append(d.sends, req, recv)
}

// progress does rounds on both sides.
func (d *duo) progress(rounds int) {
	for range rounds {
		d.c.Progress()
		d.s.Progress()
	}
}

// until progresses until something has happened.
func (d *duo) until(what string, cond func() bool) {
	d.Helper()
	for range 200_000 {
		if cond() {
			return
		}
		d.progress(1)
	}
	d.Fatalf("progressed for ever, still waiting for: %s", what)
}

// settled waits until the connection stands, or one of the ends has failed, and reports
// whether it stands.
func (d *duo) settled() bool {
	d.Helper()
	d.until("the connection, or its failure", func() bool {
		return d.sends[0].Done() || d.there.Err() != nil || d.back != nil && d.back.Err() != nil
	})
	return d.sends[0].Done() && d.there.Err() == nil && d.back.Err() == nil
}

// leave ends the connection: both ends hear of it, and nothing is left of either.
func (d *duo) leave() {
	d.Helper()
	d.there.Close()
	if d.back != nil {
		d.until("the server's failure", func() bool { return d.back.Err() != nil })
		d.back.Close()
	}
	for _, req := range d.sends {
		d.c.Cancel(req)
		d.s.Cancel(req)
		if !req.Done() {
			d.Error("an operation never ends")
		}
		req.Free()
	}
	d.sends = nil
	for what, w := range map[string]*Worker{"client": d.c, "server": d.s} {
		if n := w.endpoints.Len(); n != 0 {
			d.Errorf("%s: %d endpoints are left", what, n)
		}
		if w.peers.Len() != 0 {
			d.Errorf("%s: %d peers are left", what, w.peers.Len())
		}
	}
}

// end returns the client's endpoint, or the server's.
func (d *duo) end(client bool) (*Worker, *Endpoint) {
	if client {
		return d.c, d.there
	}
	return d.s, d.back
}

// rawCaller speaks with listeners and clients by the connection manager alone.
type rawCaller struct {
	*duo
	w *uct.Worker
	m uct.ConnManager
}

func newRawCaller(d *duo) *rawCaller {
	d.Helper()
	w, err := uct.NewWorker()
	if err != nil {
		d.Fatal(err)
	}
	k := slices.IndexFunc(uct.ConnManagers(), func(c uct.ConnManagerComponent) bool { return c.Name() == "tcp" })
	m, err := uct.ConnManagers()[k].OpenConnManager(w, d.c.ctx.set)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		m.Close()
		w.Close()
	})
	return &rawCaller{d, w, m}
}

// call says something to the server, and returns what it answers.
func (r *rawCaller) call(private []byte) (answer []byte, err error) {
	r.Helper()
	told := false
	ep, err := r.m.Connect(uct.ConnectParams{
		Remote: r.l.Addr(),
		Pack:   func(_ uct.PackArgs, dst []byte) (int, error) { return copy(dst, private), nil },
		OnConnected: func(_ uct.ConnEndpoint, a uct.ConnectedArgs) {
			told, answer, err = true, a.Private, a.Err
		},
	})
	if err != nil {
		r.Fatal(err)
	}
	r.back = nil
	r.until("an answer", func() bool { r.w.Progress(); return told })
	ep.Close()
	if err == nil {
		back := r.back
		r.until("the server's failure", func() bool { return back.Err() != nil })
		back.Close()
	}
	if n := r.s.endpoints.Len(); n != 0 {
		r.Errorf("%d endpoints are left", n)
	}
	return answer, err
}

// clientData is what an honest client says.
func (r *rawCaller) clientData() (data []byte) {
	r.Helper()
	l, err := r.m.Listen(netip.MustParseAddrPort("127.0.0.1:0"), uct.ListenParams{OnRequest: func(_ uct.Listener, q *uct.ConnRequest) {
		data = slices.Clone(q.Private)
		q.Reject()
	}})
	if err != nil {
		r.Fatal(err)
	}
	defer l.Close()
	ep, err := r.c.NewEndpoint(EndpointParams{RemoteAddr: l.Addr(), ErrMode: ErrModePeer})
	if err != nil {
		r.Fatal(err)
	}
	r.until("a rejection", func() bool { r.w.Progress(); return ep.Err() != nil })
	if !errors.Is(ep.Err(), ucs.ErrRejected) {
		r.Errorf("a client that was rejected: %v", ep.Err())
	}
	ep.Close()
	return data
}

// TestHostileConnData: whatever a client says, the server answers or rejects it, and
// nothing is left of it.
func TestHostileConnData(t *testing.T) {
	needtest.Goroutines(t)
	logtest.Watch(t).Allow("")
	r := newRawCaller(newDuo(t))
	honest := r.clientData()
	if _, err := r.call(honest); err != nil {
		t.Fatalf("the data of an honest client: %v", err)
	}
	rejected := func(what string, data []byte) {
		t.Helper()
		if _, err := r.call(data); !errors.Is(err, ucs.ErrRejected) {
			t.Errorf("%s: %v", what, err)
		}
	}
	few := 1 // how many times less there is of what there is very much of
	if testing.Short() {
		few = 10
	}
	for n := 0; n < len(honest); n += few {
		rejected(fmt.Sprintf("the first %d bytes", n), honest[:n])
	}
	for what, change := range map[string]func(d *proto.CMData){
		"no endpoint":       func(d *proto.CMData) { d.EpID = 0 },
		"no devices":        func(d *proto.CMData) { d.Address.Devices = nil },
		"another mode":      func(d *proto.CMData) { d.Version, d.ErrMode = proto.CMDataV1, 9 },
		"no ends":           func(d *proto.CMData) { d.Address.Devices[0].Ifaces[0].EpAddrs = nil },
		"an empty end":      func(d *proto.CMData) { d.Address.Devices[0].Ifaces[0].EpAddrs[0].Addr = nil },
		"a short end":       func(d *proto.CMData) { d.Address.Devices[0].Ifaces[0].EpAddrs[0].Addr = []byte{1, 2, 3} },
		"a long end":        func(d *proto.CMData) { d.Address.Devices[0].Ifaces[0].EpAddrs[0].Addr = make([]byte, 255) },
		"another transport": func(d *proto.CMData) { d.Address.Devices[0].Ifaces[0].Transport ^= 1 },
		"lane 0":            func(d *proto.CMData) { d.Address.Devices[0].Ifaces[0].EpAddrs[0].Lane = 0 },
		"a lane twice": func(d *proto.CMData) {
			f := &d.Address.Devices[0].Ifaces[0]
			f.EpAddrs = append(f.EpAddrs, f.EpAddrs[0])
		},
	} {
		d, err := proto.ParseCMData(honest, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Address = *d.Address.Clone()
		change(&d)
		data, err := d.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		rejected(what, data)
	}
	// Other data may make sense by chance.
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < 100; n += few {
		for _, fill := range []byte{0, 1, 0x20, 0x40, 0x80, 0xFF} {
			r.call(slices.Repeat([]byte{fill}, n))
		}
		for range 20 {
			data := slices.Clone(honest)
			for range 1 + rng.IntN(3) {
				data[rng.IntN(len(data))] ^= byte(1 << rng.IntN(8))
			}
			r.call(data)
		}
	}
	r.dial()
	if !r.settled() {
		t.Errorf("an honest client among them: %v", r.there.Err())
	}
	r.leave()
}

// TestHostileAnswer: whatever a server answers, the client connects or fails.
func TestHostileAnswer(t *testing.T) {
	needtest.Goroutines(t)
	logtest.Watch(t).Allow("")
	r := newRawCaller(newDuo(t, "CM_USE_ALL_DEVICES", "n"))
	honest, err := r.call(r.clientData())
	if err != nil {
		t.Fatal(err)
	}
	var private []byte
	var parts []uct.ConnEndpoint
	l, err := r.m.Listen(netip.MustParseAddrPort("127.0.0.1:0"), uct.ListenParams{OnRequest: func(_ uct.Listener, q *uct.ConnRequest) {
		ep, err := r.m.Accept(q, uct.AcceptParams{Private: private})
		if err != nil {
			t.Error(err)
			return
		}
		parts = append(parts, ep)
	}})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(what string, data []byte, ends bool) {
		t.Helper()
		private = data
		ep, err := r.c.NewEndpoint(EndpointParams{RemoteAddr: l.Addr(), ErrMode: ErrModePeer})
		if err != nil {
			t.Fatal(err)
		}
		send, err := ep.TagSendSync(1, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.until("the server", func() bool { r.w.Progress(); return len(parts) > 0 })
		if ends {
			r.until("the failure: "+what, func() bool { r.w.Progress(); return ep.Err() != nil })
		}
		parts[0].Close()
		parts = nil
		r.until("the failure: "+what, func() bool { r.w.Progress(); return ep.Err() != nil && send.Done() })
		send.Free()
		ep.Close()
		if n := r.c.endpoints.Len(); n != 0 {
			t.Errorf("%s: %d endpoints are left", what, n)
		}
	}
	few := 1 // how many times less there is of what there is very much of
	if testing.Short() {
		few = 10
	}
	for n := 0; n < len(honest); n += few {
		answer(fmt.Sprintf("the first %d bytes", n), honest[:n], true)
	}
	zero := slices.Clone(honest)
	clear(zero[:8])
	answer("no endpoint", zero, true)
	answer("an answer", honest, false)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 / few {
		data := slices.Clone(honest)
		data[rng.IntN(len(data))] ^= byte(1 << rng.IntN(8))
		answer("noise", data, false)
	}
}

// forged are wireup messages that look as if they were for an endpoint's stage.
var forged = []proto.WireupType{
	proto.WireupPreRequest, proto.WireupRequest, proto.WireupReply, proto.WireupReplyReconfig, proto.WireupAck, proto.WireupEpRemoved,
	proto.WireupEpCheck,
}

// stages is how many rounds a connection takes, with some to spare.
const stages = 25

// TestHostileConnStages: messages by the connection of somebody else, with all the right
// ids, change nothing: the connection is made.
func TestHostileConnStages(t *testing.T) {
	needtest.Goroutines(t)
	logtest.Watch(t).Allow("")
	for _, typ := range forged {
		if typ == proto.WireupEpCheck {
			continue // it asks for nothing
		}
		for _, client := range []bool{false, true} {
			d := newDuo(t)
			for rounds := range stages {
				if testing.Short() && rounds%5 != int(typ)%5 {
					continue
				}
				d.dial()
				d.progress(rounds)
				w, ep := d.end(client)
				if ep == nil {
					d.until("the server's end", func() bool { return d.back != nil })
					w, ep = d.end(client)
				}
				l := newLocated("192.0.2.7:77", false)
				m := proto.Wireup{Type: typ, ErrMode: proto.ErrModePeer, SrcEp: ep.remoteID, DstEp: ep.localID, Address: w.own.emptyAddress()}
				for _, uuid := range []uint64{0, 5, w.uuid, ep.peer.UUID()} {
					for _, addr := range []proto.WorkerAddress{w.own.emptyAddress(), w.own.described} {
						m.Address = addr
						m.Address.Flags |= proto.AddressHasUUID
						m.Address.UUID = uuid
						b, err := m.Append(nil)
						if err != nil {
							t.Fatal(err)
						}
						w.wireups.onWireup(&l.Source, b, nil)
					}
				}
				if !d.settled() {
					t.Errorf("%v to the client: %t, after %d rounds: %v, %v", typ, client, rounds, d.there.Err(), d.back.Err())
				}
				l.Gone()
				d.leave()
			}
		}
	}
}

// TestHostileConnIDs: messages with wrong ids find nothing, on the peer's own lane, too.
func TestHostileConnIDs(t *testing.T) {
	logtest.Watch(t).Allow("")
	d := newDuo(t)
	for _, client := range []bool{false, true} {
		for rounds := range stages {
			d.dial()
			d.progress(rounds)
			d.until("the server's end", func() bool { return d.back != nil })
			w, ep := d.end(client)
			for _, typ := range []proto.WireupType{proto.WireupPreRequest, proto.WireupRequest, proto.WireupReply, proto.WireupAck} {
				for _, ids := range [][2]proto.EndpointID{
					{0, ep.localID}, {ep.remoteID ^ 1<<40, ep.localID}, {ep.remoteID, ep.localID ^ 1<<40}, {ep.remoteID, ^proto.EndpointID(0)},
				} {
					if typ == proto.WireupAck && ids[1] == ep.localID || typ == proto.WireupReply && ids[0] != 0 && ids[1] == ep.localID {
						continue // an acknowledgement or a reply carries the uuid
					}
					m := proto.Wireup{Type: typ, ErrMode: proto.ErrModePeer, SrcEp: ids[0], DstEp: ids[1], Address: w.own.described}
					b, err := m.Append(nil)
					if err != nil {
						t.Fatal(err)
					}
					w.wireups.onWireup(nil, b, nil)
				}
			}
			if !d.settled() {
				t.Errorf("after %d rounds: %v, %v", rounds, d.there.Err(), d.back.Err())
			}
			d.leave()
		}
	}
}

// TestHostileConnPeer: the peer itself says anything at any time. The endpoint fails or
// not, and in the end nothing is left.
func TestHostileConnPeer(t *testing.T) {
	needtest.Goroutines(t)
	logtest.Watch(t).Allow("")
	d := newDuo(t)
	for k := range 2 * stages * len(forged) {
		if testing.Short() && k%9 != 0 {
			continue // of which each side is every other one
		}
		d.forge(forgery{rounds: k / (2 * len(forged)), client: k%2 == 0, typ: forged[k/2%len(forged)], shape: k, uuid: k / 3})
	}
}

// forgery is a message that a peer makes up.
type forgery struct {
	rounds      int // that the connection has had
	client      bool
	typ         proto.WireupType
	shape, uuid int
	bytes       []byte // of the address, in place of a shape
}

// forge makes a connection and lets the peer of one end say something.
func (d *duo) forge(f forgery) {
	d.Helper()
	d.dial()
	d.progress(f.rounds)
	d.until("the server's end", func() bool { return d.back != nil || d.there.Err() != nil })
	if w, ep := d.end(f.client); ep != nil && ep.Err() == nil {
		other, _ := d.end(!f.client)
		w.wireups.onWireup(nil, d.message(w, other, ep, &f), nil)
		d.progress(1)
		w.wireups.onWireup(nil, d.message(w, other, ep, &f), nil)
	}
	d.until("the end of the client's send", func() bool {
		d.progress(1)
		return d.sends[0].Done() || d.back.Err() != nil && d.there.Err() != nil || d.stuck()
	})
	d.leave()
}

// stuck reports whether both ends wait for what the forged message has taken the place of:
// then the application decides how long to wait.
func (d *duo) stuck() bool {
	for range 2000 {
		if d.c.Progress()+d.s.Progress() > 0 {
			return false
		}
	}
	return true
}

// message is the bytes of a forgery.
func (d *duo) message(w, other *Worker, ep *Endpoint, f *forgery) []byte {
	m := proto.Wireup{Type: f.typ, ErrMode: proto.ErrModePeer, SrcEp: ep.remoteID, DstEp: ep.localID}
	switch a := &m.Address; f.shape % 7 {
	case 0:
		*a = other.own.emptyAddress()
	case 1:
		*a = *other.own.described.Clone()
	case 2: // everything twice
		*a = *other.own.described.Clone()
		a.Devices = append(a.Devices, a.Clone().Devices...)
	case 3: // leads to itself
		*a = *w.own.described.Clone()
	case 4: // ends that are none
		*a = *other.own.described.Clone()
		a.Ifaces(func(n int, _ *proto.AddressDevice, i *proto.AddressIface) bool {
			i.EpAddrs = []proto.AddressEp{{Lane: uint8(n), Addr: make([]byte, 10)}, {Lane: uint8(n), Addr: make([]byte, 10)}}
			return true
		})
	case 5: // ends of any length, under high numbers
		*a = *other.own.described.Clone()
		a.Ifaces(func(n int, _ *proto.AddressDevice, i *proto.AddressIface) bool {
			for k := range 5 {
				i.EpAddrs = append(i.EpAddrs, proto.AddressEp{Lane: uint8(63 - k), Addr: make([]byte, 7*k)})
			}
			return true
		})
	case 6: // the ends that are there
		if own, err := ep.w.handshakes.laneAddress(ep, allLanes, ep.pair.number); err == nil {
			*a = own
		}
	}
	if f.bytes != nil {
		b, err := (&proto.Wireup{Type: f.typ, ErrMode: proto.ErrModePeer, SrcEp: ep.remoteID, DstEp: ep.localID}).Append(nil)
		if err != nil {
			d.Fatal(err)
		}
		return append(b[:20], f.bytes...)
	}
	m.Address.Flags |= proto.AddressHasUUID
	m.Address.UUID = []uint64{other.uuid, 0, 5, w.uuid}[f.uuid%4]
	b, err := m.Append(nil)
	if err != nil {
		d.Fatal(err)
	}
	return b
}

// TestHostileReply: a server cannot send a client's lanes elsewhere by what it says last.
func TestHostileReply(t *testing.T) {
	logtest.Watch(t).Allow("")
	d := newDuo(t, "TLS", "tcp")
	other, err := net.Listen("tcp", "127.0.0.1:0") // a service that is not the server's
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).AddrPort().Port()
	for name, shape := range map[string]func(dev *proto.AddressDevice, f *proto.AddressIface){
		"another port":           func(_ *proto.AddressDevice, f *proto.AddressIface) { f.Addr = binary.BigEndian.AppendUint16(nil, port) },
		"an end of another port": func(*proto.AddressDevice, *proto.AddressIface) {},
		"another device": func(dev *proto.AddressDevice, _ *proto.AddressIface) {
			dev.Addr = append(dev.Addr[:len(dev.Addr)-1], 9)
		},
	} {
		d.dial()
		ep := d.there
		d.until("the connection by the manager", func() bool { return ep.handshake.Stage >= connect.Joined })
		say := func(typ proto.WireupType, shape func(*proto.AddressDevice, *proto.AddressIface)) {
			m := proto.Wireup{Type: typ, ErrMode: proto.ErrModePeer, SrcEp: ep.remoteID, DstEp: ep.localID, Address: *d.s.own.described.Clone()}
			m.Address.Flags |= proto.AddressHasUUID
			m.Address.UUID = d.s.uuid
			m.Address.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
				if shape != nil {
					end := binary.LittleEndian.AppendUint64(binary.BigEndian.AppendUint16(nil, port), 77)
					f.EpAddrs = []proto.AddressEp{{Lane: 1, Addr: end}}
					shape(dev, f)
				}
				return true
			})
			b, err := m.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			d.c.wireups.onWireup(nil, b, nil)
		}
		say(proto.WireupPreRequest, nil) // an honest one, without the ends that there are: a new lane
		if ep.pair.Paired == 0 || ep.pair.Joined != 0 {
			t.Fatalf("%s: lanes %b, connected %b", name, ep.pair.Paired, ep.pair.Joined)
		}
		say(proto.WireupReply, shape)
		if ep.pair != nil && ep.pair.Joined != 0 || !errors.Is(ep.Err(), ucs.ErrInvalidAddr) {
			t.Errorf("%s: %v", name, ep.Err())
		}
		d.until("the server's end", func() bool { return d.back != nil })
		d.leave()
	}
}
