package ucp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// otherManager is a connection manager that a worker tries before its own managers. It has its own
// ports and finds no server.
type otherManager struct {
	ports   []uint16 // to choose in turn for listeners on any port
	refuses error    // result of Listen
	outcome []error  // of Connect: [0] is returned at once; if it is nil, Progress reports [1]
	device  string   // passed to Pack, if not empty

	open, closed int // numbers of listeners
	asked        int // number of Connect calls
	packed       error
	told         []func()
}

// before puts the manager in front of the connection managers of a worker.
func (o *otherManager) before(w *Worker) {
	w.conns.connManagers()
	w.conns.managers = slices.DeleteFunc(w.conns.managers, func(m manager) bool { return m.uct == nil })
	w.conns.managers = append([]manager{{name: "other", uct: o}}, w.conns.managers...)
	w.uctw.AddProgress(o)
}

// Arm implements uct.Progressor.
func (o *otherManager) Arm(uct.EventFlags) error { return nil }

func (o *otherManager) Attr() *uct.ConnManagerAttr {
	return &uct.ConnManagerAttr{Component: "other", MaxPrivate: 54}
}

func (o *otherManager) Listen(at netip.AddrPort, _ uct.ListenParams) (uct.Listener, error) {
	if o.refuses != nil {
		return nil, o.refuses
	}
	o.open++
	if at.Port() == 0 {
		at = netip.AddrPortFrom(at.Addr(), o.ports[0])
		o.ports = o.ports[1:]
	}
	return &otherListener{o, at}, nil
}

type otherListener struct {
	o  *otherManager
	at netip.AddrPort
}

func (l *otherListener) Addr() netip.AddrPort { return l.at }

func (l *otherListener) Close() error {
	l.o.closed++
	return nil
}

func (o *otherManager) Connect(p uct.ConnectParams) (uct.ConnEndpoint, error) {
	o.asked++
	if err := o.outcome[0]; err != nil {
		return nil, err
	}
	ep := &otherEnd{}
	o.told = append(o.told, func() {
		err := o.outcome[1]
		if o.device != "" {
			if _, o.packed = p.Pack(uct.PackArgs{Device: o.device}, make([]byte, 54)); o.packed != nil {
				err = o.packed
			}
		}
		if !ep.closed {
			p.OnConnected(ep, uct.ConnectedArgs{Err: err})
		}
	})
	return ep, nil
}

func (o *otherManager) Accept(*uct.ConnRequest, uct.AcceptParams) (uct.ConnEndpoint, error) {
	return nil, ucs.ErrInvalidParam
}

func (o *otherManager) Progress() int {
	list := o.told
	o.told = nil
	for _, fn := range list {
		fn()
	}
	return len(list)
}

func (o *otherManager) Close() error { return nil }

type otherEnd struct{ closed bool }

func (*otherEnd) Notify() error              { return ucs.ErrNotConnected }
func (*otherEnd) Disconnect() error          { return ucs.ErrNotConnected }
func (*otherEnd) LocalAddr() netip.AddrPort  { return netip.AddrPort{} }
func (*otherEnd) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }
func (e *otherEnd) Close()                   { e.closed = true }

// TestManagersListen checks that a listener uses the same port at every connection manager. A
// manager without a device is left out. A port that is taken at one manager counts as taken; if the
// caller leaves the choice to the system, another port is tried.
func TestManagersListen(t *testing.T) {
	d := newDuo(t)
	listen := func(o *otherManager, port uint16) (*Listener, error) {
		w := openTarget(t, d.s.ctx)
		t.Cleanup(func() { w.Close() })
		o.before(w)
		return w.NewListener(ListenerParams{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), OnAccept: func(*Endpoint) {}})
	}
	taken := d.l.Addr().Port()
	free := func() uint16 {
		w := openTarget(t, d.s.ctx)
		defer w.Close()
		l, err := w.NewListener(ListenerParams{Addr: netip.MustParseAddrPort("127.0.0.1:0"), OnAccept: func(*Endpoint) {}})
		if err != nil {
			t.Fatal(err)
		}
		return l.Addr().Port()
	}()

	o := &otherManager{ports: []uint16{taken, taken, free}}
	l, err := listen(o, 0)
	if err != nil || l.Addr().Port() != free || len(l.parts) != 2 || o.open != 3 || o.closed != 2 {
		t.Fatalf("any port: %v, opened %d, closed %d: %+v", err, o.open, o.closed, l)
	}
	l.Close()
	if o.closed != 3 {
		t.Errorf("opened %d, closed %d", o.open, o.closed)
	}
	o = &otherManager{}
	if l, err := listen(o, taken); !errors.Is(err, ucs.ErrBusy) || o.open != 1 || o.closed != 1 {
		t.Errorf("a port that is taken: %v, %v, opened %d, closed %d", l, err, o.open, o.closed)
	}
	o = &otherManager{refuses: fmt.Errorf("taken there: %w", ucs.ErrBusy)}
	if l, err := listen(o, free); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("a port that is taken at the other: %v, %v", l, err)
	}
	if _, err := listen(o, 0); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("all ports are taken at the other: %v", err)
	}
	o = &otherManager{refuses: fmt.Errorf("no device: %w", ucs.ErrNoDevice)}
	l, err = listen(o, free)
	if err != nil || len(l.parts) != 1 || l.Addr().Port() != free {
		t.Fatalf("without a device of the other: %v", err)
	}
}

// TestManagersConnect checks that a client tries the next connection manager after any failure of
// one, except when the server has rejected the connection.
func TestManagersConnect(t *testing.T) {
	sentinel := errors.New("something else")
	for what, o := range map[string]*otherManager{
		"no device at once":    {outcome: []error{fmt.Errorf("no device: %w", ucs.ErrNoDevice)}},
		"unreachable":          {outcome: []error{nil, ucs.ErrUnreachable}},
		"nobody listens":       {outcome: []error{nil, ucs.ErrNotConnected}},
		"reset":                {outcome: []error{nil, ucs.ErrConnectionReset}},
		"something else":       {outcome: []error{nil, sentinel}},
		"no transport there":   {outcome: []error{nil, ucs.ErrUnreachable}, device: "rxe0:1"},
		"refused after lanes":  {outcome: []error{nil, ucs.ErrNotConnected}, device: "lo"},
		"rejected":             {outcome: []error{nil, fmt.Errorf("no: %w", ucs.ErrRejected)}},
		"rejected after lanes": {outcome: []error{nil, ucs.ErrRejected}, device: "lo"},
	} {
		t.Run(what, func(t *testing.T) {
			d := newDuo(t)
			o.before(d.c)
			d.dial()
			connected := d.settled()
			if o.asked != 1 {
				t.Errorf("asked %d times", o.asked)
			}
			if strings.HasPrefix(what, "rejected") {
				if connected || !errors.Is(d.there.Err(), ucs.ErrRejected) {
					t.Errorf("connected: %t, %v", connected, d.there.Err())
				}
			} else if !connected {
				t.Errorf("%v", d.there.Err())
			}
			if o.device == "rxe0:1" && !errors.Is(o.packed, ucs.ErrUnreachable) {
				t.Errorf("packed for a device without transports: %v", o.packed)
			}
			d.leave()
		})
	}
}

// TestManagersExhausted checks that the error is that of the last manager if all have failed.
func TestManagersExhausted(t *testing.T) {
	d := newDuo(t)
	o := &otherManager{outcome: []error{nil, ucs.ErrUnreachable}}
	o.before(d.c)
	d.l.Close()
	d.dial()
	if d.settled() || !errors.Is(d.there.Err(), ucs.ErrNotConnected) {
		t.Errorf("%v", d.there.Err())
	}
	d.leave()
}
