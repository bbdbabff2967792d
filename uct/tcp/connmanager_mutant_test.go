//go:build linux

package tcp

import (
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// connMutants are defects of the connection manager, each with the test of the suite that must
// fail.
var connMutants = []connMutant{
	{name: "changes a byte", test: "private data", accept: func(p *uct.AcceptParams) {
		if n := len(p.Private); n > 0 {
			p.Private = slices.Clone(p.Private)
			p.Private[n-1]++
		}
	}},
	{name: "cuts what is too long", test: "private data too long", accept: func(p *uct.AcceptParams) {
		p.Private = p.Private[:min(len(p.Private), 2064)]
	}},
	{name: "packs twice", test: "conversation", connect: func(p *uct.ConnectParams) {
		if pack := p.Pack; pack != nil {
			p.Pack = func(a uct.PackArgs, dst []byte) (int, error) {
				pack(a, dst)
				return pack(a, dst)
			}
		}
	}},
	{name: "tells twice", test: "conversation", connect: func(p *uct.ConnectParams) {
		on := p.OnConnected
		p.OnConnected = func(ep uct.ConnEndpoint, a uct.ConnectedArgs) { on(ep, a); on(ep, a) }
	}},
	{name: "forgets why", test: "reject", connect: func(p *uct.ConnectParams) {
		on := p.OnConnected
		p.OnConnected = func(ep uct.ConnEndpoint, a uct.ConnectedArgs) {
			if a.Err != nil {
				a.Err = ucs.ErrNotConnected
			}
			on(ep, a)
		}
	}},
	{name: "tells the end twice", test: "disconnect", accept: func(p *uct.AcceptParams) {
		on := p.OnDisconnected
		p.OnDisconnected = func(ep uct.ConnEndpoint, err error) { on(ep, err); on(ep, err) }
	}},
	{name: "mistakes the end", test: "disconnect", connect: func(p *uct.ConnectParams) {
		on := p.OnDisconnected
		p.OnDisconnected = func(ep uct.ConnEndpoint, err error) { on(ep, ucs.ErrConnectionReset) }
	}},
	{name: "has any number of requests", test: "backlog", listen: func(p *uct.ListenParams) { p.Backlog = 0 }},
	{name: "lets everybody in", test: "policy", listen: func(p *uct.ListenParams) { p.Accept = nil }},
	{name: "shows requests twice", test: "private data", listen: func(p *uct.ListenParams) {
		on := p.OnRequest
		p.OnRequest = func(l uct.Listener, r *uct.ConnRequest) { on(l, r); on(l, r) }
	}},
	{name: "rejects again and again", test: "consumed once", listen: func(p *uct.ListenParams) {
		on := p.OnRequest
		p.OnRequest = func(l uct.Listener, r *uct.ConnRequest) {
			reject := r.Reject
			r.Reject = func() error { reject(); return nil }
			on(l, r)
		}
	}},
	{name: "leaks a descriptor", test: "manager", open: func(*mutantManager) { unix.Eventfd(0, unix.EFD_CLOEXEC) }},
	{name: "tells at once", test: "refused", open: func(m *mutantManager) { m.hasty = true }},
	{name: "ends all with the listener", test: "listener closed", open: func(m *mutantManager) { m.drastic = true }},
	{name: "tells who has closed", test: "server gone", open: func(m *mutantManager) { m.chatty = true }},
	{name: "disconnects at any time", test: "calls too early", open: func(m *mutantManager) { m.lenient = true }},
}

type connMutant struct {
	name    string
	test    string
	open    func(*mutantManager)
	listen  func(*uct.ListenParams)
	connect func(*uct.ConnectParams)
	accept  func(*uct.AcceptParams)
}

// mutantComponent is the component with a defect in its manager.
type mutantComponent struct {
	component
	connMutant
}

func (c mutantComponent) OpenConnManager(w *uct.Worker, cfg *config.Set) (uct.ConnManager, error) {
	m := &mutantManager{connMutant: c.connMutant}
	if m.open != nil {
		m.open(m)
	}
	var err error
	m.ConnManager, err = c.component.OpenConnManager(w, cfg)
	return m, err
}

type mutantManager struct {
	uct.ConnManager
	connMutant
	hasty, drastic, chatty, lenient bool
	endpoints                       []uct.ConnEndpoint
}

func (m *mutantManager) Listen(at netip.AddrPort, p uct.ListenParams) (uct.Listener, error) {
	if m.listen != nil && p.OnRequest != nil {
		m.listen(&p)
	}
	l, err := m.ConnManager.Listen(at, p)
	if err == nil && m.drastic {
		l = &drasticListener{l, m}
	}
	return l, err
}

func (m *mutantManager) Connect(p uct.ConnectParams) (uct.ConnEndpoint, error) {
	if m.connect != nil && p.OnConnected != nil {
		m.connect(&p)
	}
	if m.hasty && p.OnConnected != nil {
		p.OnConnected(nil, uct.ConnectedArgs{Err: ucs.ErrNotConnected})
	}
	return m.ConnManager.Connect(p)
}

func (m *mutantManager) Accept(r *uct.ConnRequest, p uct.AcceptParams) (uct.ConnEndpoint, error) {
	if m.accept != nil {
		m.accept(&p)
	}
	told := &mutantEndpoint{m: m, ended: p.OnDisconnected}
	if m.chatty || m.lenient {
		notify, ended := p.OnNotify, p.OnDisconnected
		p.OnNotify = func(_ uct.ConnEndpoint, err error) { notify(told, err) }
		p.OnDisconnected = func(_ uct.ConnEndpoint, err error) { ended(told, err) }
	}
	ep, err := m.ConnManager.Accept(r, p)
	if err != nil {
		return nil, err
	}
	m.endpoints = append(m.endpoints, ep)
	if m.chatty || m.lenient {
		told.ConnEndpoint = ep
		return told, nil
	}
	return ep, nil
}

type mutantEndpoint struct {
	uct.ConnEndpoint
	m     *mutantManager
	ended func(uct.ConnEndpoint, error)
}

func (e *mutantEndpoint) Close() {
	if e.m.chatty {
		e.ended(e, ucs.ErrCanceled)
	}
	e.ConnEndpoint.Close()
}

func (e *mutantEndpoint) Disconnect() error {
	if e.m.lenient {
		return nil
	}
	return e.ConnEndpoint.Disconnect()
}

type drasticListener struct {
	uct.Listener
	m *mutantManager
}

func (l *drasticListener) Close() error {
	for _, ep := range l.m.endpoints {
		ep.Close()
	}
	return l.Listener.Close()
}

// connMutantVar tells the child which mutant to test.
const connMutantVar = "UCT_TCP_CONN_MUTANT"

// TestConnMutant runs the suite on a mutant, and is meant to fail. TestSuiteNoticesConnMutants runs
// it in a child process.
func TestConnMutant(t *testing.T) {
	name, ok := os.LookupEnv(connMutantVar)
	if !ok {
		t.Skip("run by TestSuiteNoticesConnMutants")
	}
	for _, m := range connMutants {
		if m.name == name {
			ucttest.RunConnManager(t, ucttest.ConnFixture{Component: mutantComponent{connMutant: m}, Addr: loopback4})
		}
	}
}

func TestSuiteNoticesConnMutants(t *testing.T) {
	for _, m := range connMutants {
		t.Run(m.name, func(t *testing.T) {
			test := strings.ReplaceAll(m.test, " ", "_")
			cmd := exec.Command(os.Args[0], "-test.run=^TestConnMutant$/^"+test+"$", "-test.v")
			cmd.Env = append(os.Environ(), connMutantVar+"="+m.name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestConnMutant/"+test) {
				t.Errorf("test %q did not notice (%v):\n%s", m.test, err, out)
			}
		})
	}
}
