package ucttest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// mutants are defects of an otherwise correct transport, each with the test of the suite that must
// fail.
var mutants = append([]mutant{
	{name: "forgets rights", test: "remote permission refused", domain: func(md uct.MemoryDomain) uct.MemoryDomain {
		return &forgetsRights{md}
	}},
	{name: "keeps handlers", test: "am handlers", iface: func(i uct.Iface) uct.Iface { return &keepsHandlers{i} }},
}, endpointMutants...)

// mutant is one such defect.
type mutant struct {
	name   string
	test   string
	wrap   func(ep uct.Endpoint) uct.Endpoint
	iface  func(i uct.Iface) uct.Iface
	domain func(md uct.MemoryDomain) uct.MemoryDomain
}

var endpointMutants = []mutant{
	{name: "changes a byte", test: "am", wrap: func(ep uct.Endpoint) uct.Endpoint { return &changesByte{wholeOf(ep)} }},
	{name: "swaps the header", test: "am short", wrap: func(ep uct.Endpoint) uct.Endpoint { return &swapsHeader{wholeOf(ep)} }},
	{name: "packs twice", test: "am bcopy", wrap: func(ep uct.Endpoint) uct.Endpoint { return &packsTwice{wholeOf(ep)} }},
	{name: "swallows long messages", test: "am limits", wrap: func(ep uct.Endpoint) uct.Endpoint { return &swallows{wholeOf(ep)} }},
	{name: "packs what it refuses", test: "refusal", wrap: func(ep uct.Endpoint) uct.Endpoint { return &packsRefused{wholeOf(ep)} }},
	{name: "never queues", test: "pending order", wrap: func(ep uct.Endpoint) uct.Endpoint { return &neverQueues{wholeOf(ep)} }},
	{name: "purges twice", test: "pending purge", wrap: func(ep uct.Endpoint) uct.Endpoint { return &purgesTwice{wholeOf(ep)} }},
	{name: "flushes too early", test: "flush", wrap: func(ep uct.Endpoint) uct.Endpoint { return &flushesEarly{wholeOf(ep)} }},
	{name: "hides a part", test: "optional parts", wrap: func(ep uct.Endpoint) uct.Endpoint {
		w := wholeOf(ep)
		return &hidesRMA{w.Endpoint, w.Atomic, w.Paired}
	}},
	{name: "completes twice", test: "flush", wrap: func(ep uct.Endpoint) uct.Endpoint { return &completesTwice{wholeOf(ep)} }},
	{name: "miscounts", test: "atomic", wrap: func(ep uct.Endpoint) uct.Endpoint { return &miscounts{wholeOf(ep)} }},
	{name: "writes next to the target", test: "put", wrap: func(ep uct.Endpoint) uct.Endpoint { return &writesBeside{wholeOf(ep)} }},
	{name: "goes on after close", test: "close", wrap: func(ep uct.Endpoint) uct.Endpoint { return &undead{whole: wholeOf(ep)} }},
	{name: "allocates", test: "no allocations", wrap: func(ep uct.Endpoint) uct.Endpoint { return &allocates{whole: wholeOf(ep)} }},
	{name: "leaks a descriptor", test: "am", wrap: func(ep uct.Endpoint) uct.Endpoint {
		unix.Eventfd(0, unix.EFD_CLOEXEC)
		return ep
	}},
	{name: "leaks a goroutine", test: "am", wrap: func(ep uct.Endpoint) uct.Endpoint {
		go func() { select {} }()
		return ep
	}},
	{name: "takes what has no room", test: "refusal", wrap: func(ep uct.Endpoint) uct.Endpoint { return &takesAnything{wholeOf(ep)} }},
}

// whole is an endpoint of package sim, with all optional interfaces.
type whole struct {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.Paired
}

func wholeOf(ep uct.Endpoint) whole {
	return whole{ep, ep.(uct.RMA), ep.(uct.Atomic), ep.(uct.Paired)}
}

// hidesRMA lacks remote access, which the attributes announce.
type hidesRMA struct {
	uct.Endpoint
	uct.Atomic
	uct.Paired
}

type changesByte struct{ whole }

func (e *changesByte) AMShort(id uct.AMID, h uint64, b []byte, f uct.SendFlags, c *uct.Completion) error {
	if len(b) > 100 {
		b[100] ^= 1
	}
	return e.Endpoint.AMShort(id, h, b, f, c)
}

type swapsHeader struct{ whole }

func (e *swapsHeader) AMShort(id uct.AMID, h uint64, b []byte, f uct.SendFlags, c *uct.Completion) error {
	return e.Endpoint.AMShort(id, h<<8|h>>56, b, f, c)
}

type packsTwice struct{ whole }

func (e *packsTwice) AMBcopy(id uct.AMID, p uct.Packer, f uct.SendFlags, c *uct.Completion) (int, error) {
	p.Pack(make([]byte, 8192))
	return e.Endpoint.AMBcopy(id, p, f, c)
}

type packsRefused struct{ whole }

func (e *packsRefused) AMBcopy(id uct.AMID, p uct.Packer, f uct.SendFlags, c *uct.Completion) (int, error) {
	n, err := e.Endpoint.AMBcopy(id, p, f, c)
	if err == ucs.ErrNoResource {
		p.Pack(make([]byte, 8192))
	}
	return n, err
}

type swallows struct{ whole }

func (e *swallows) AMShort(id uct.AMID, h uint64, b []byte, f uct.SendFlags, c *uct.Completion) error {
	if len(b) > 248 {
		return nil
	}
	return e.Endpoint.AMShort(id, h, b, f, c)
}

type neverQueues struct{ whole }

func (e *neverQueues) PendingAdd(*uct.Pending) error { return nil }

type purgesTwice struct{ whole }

func (e *purgesTwice) PendingPurge(fn func(*uct.Pending)) {
	e.Endpoint.PendingPurge(func(p *uct.Pending) { fn(p); fn(p) })
}

type flushesEarly struct{ whole }

func (e *flushesEarly) Flush(uct.FlushFlags, *uct.Completion) error { return nil }

type completesTwice struct{ whole }

func (e *completesTwice) Flush(f uct.FlushFlags, c *uct.Completion) error {
	err := e.Endpoint.Flush(f, c)
	if err == nil && c != nil {
		c.Owner.Completed(c)
	}
	return err
}

type miscounts struct{ whole }

func (e *miscounts) Atomic64Post(op uct.AtomicOp, v, raddr uint64, key *uct.Rkey) error {
	return e.Atomic.Atomic64Post(op, v+1, raddr, key)
}

type writesBeside struct{ whole }

func (e *writesBeside) PutShort(b []byte, raddr uint64, key *uct.Rkey) error {
	return e.RMA.PutShort(append(b, 0xff), raddr, key)
}

type undead struct {
	whole
	closed bool
}

func (e *undead) Close() {
	e.closed = true
	e.Endpoint.Close()
}

func (e *undead) AMShort(id uct.AMID, h uint64, b []byte, f uct.SendFlags, c *uct.Completion) error {
	if e.closed {
		return nil
	}
	return e.Endpoint.AMShort(id, h, b, f, c)
}

type allocates struct {
	whole
	last []byte
}

func (e *allocates) AMShort(id uct.AMID, h uint64, b []byte, f uct.SendFlags, c *uct.Completion) error {
	e.last = append([]byte(nil), b...)
	return e.Endpoint.AMShort(id, h, e.last, f, c)
}

// mutated is a component that wraps its endpoints.
type mutated struct {
	uct.Component
	mutant
}

func (m *mutated) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	md, err := m.Component.OpenMD(name, cfg)
	if m.domain != nil {
		md = m.domain(md)
	}
	return &mutatedDomain{md, m.mutant}, err
}

// forgetsRights registers memory for every kind of access.
type forgetsRights struct{ uct.MemoryDomain }

func (d *forgetsRights) Register(buf []byte, _ uct.Access) (uct.MemHandle, error) {
	return d.MemoryDomain.Register(buf, uct.AccessAll)
}

// keepsHandlers ignores the removal of handlers.
type keepsHandlers struct{ uct.Iface }

func (i *keepsHandlers) SetAMHandler(id uct.AMID, h uct.AMHandler) error {
	if h == nil {
		return nil
	}
	return i.Iface.SetAMHandler(id, h)
}

type mutatedDomain struct {
	uct.MemoryDomain
	mutant
}

func (d *mutatedDomain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	i, err := d.MemoryDomain.OpenIface(w, p, cfg)
	if d.iface != nil {
		i = d.iface(i)
	}
	return &mutatedIface{i, d.mutant}, err
}

type mutatedIface struct {
	uct.Iface
	mutant
}

func (i *mutatedIface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	ep, err := i.Iface.NewEndpoint(p)
	if err != nil {
		return nil, err
	}
	if i.wrap != nil {
		ep = i.wrap(ep)
	}
	return ep, nil
}

// mutantVar tells the child which mutant to test.
const mutantVar = "UCTTEST_MUTANT"

// TestMutant runs the suite on a mutant, and is meant to fail. TestSuiteNoticesMutants runs it in a
// child process.
func TestMutant(t *testing.T) {
	name, ok := os.LookupEnv(mutantVar)
	if !ok {
		t.Skip("run by TestSuiteNoticesMutants")
	}
	for _, m := range mutants {
		if m.name == name {
			ucttest.Run(t, ucttest.Fixture{Component: &mutated{sim.New(sim.Options{}), m}})
		}
	}
}

func TestSuiteNoticesMutants(t *testing.T) {
	needtest.Goroutines(t)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			test := strings.ReplaceAll(m.test, " ", "_")
			cmd := exec.Command(os.Args[0], "-test.run=^TestMutant$/^(open_and_close|"+test+")$", "-test.v")
			cmd.Env = append(os.Environ(), mutantVar+"="+m.name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestMutant/"+test) {
				t.Errorf("test %q did not notice (%v):\n%s", m.test, err, out)
			}
		})
	}
}
