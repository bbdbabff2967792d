package admit

import (
	"crypto/tls"
	"net/netip"
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// kernel is a made-up machine with a connection of a peer and the destinations of entries. It
// counts the questions that it is asked.
type kernel struct {
	// The facts.
	info      uct.SourceInfo
	holder    uct.Process // process that holds the other end of the connection
	places    map[string]place
	listeners []netip.AddrPort // at which the peer's user listens
	given     map[string][]*proto.WorkerAddress

	clock time.Duration
	takes time.Duration // how long a look-up takes

	// The questions asked so far.
	finds, held, listens int
	opened               []uct.Process // processes whose objects were opened
}

// place is the destination of an entry, with what the kernel knows of it.
type place struct {
	Destination
	process uct.Process // of DestinationProcess
	file    bool        // the entry does not say which process it belongs to
}

func (k *kernel) Source() ledger.Source { return ledger.Source{UID: 7} }

func (k *kernel) Place(e Entry) Destination { return k.places[string(e.IfaceAddr)].Destination }

func (k *kernel) FindProcess(e Entry, may func(uct.Process) bool) bool {
	k.finds++
	k.clock += k.takes
	p := k.places[string(e.IfaceAddr)]
	if p.file && !may(0) || !p.file && !may(p.process) {
		return false
	}
	k.opened = append(k.opened, p.process)
	return !p.file || may(p.process)
}

func (k *kernel) Given(e Entry) []*proto.WorkerAddress { return k.given[string(e.IfaceAddr)] }

func (k *kernel) SourceInfo() uct.SourceInfo { return k.info }

func (k *kernel) SourceTLS() *tls.ConnectionState { return nil }

func (k *kernel) HeldBy(p uct.Process) bool {
	k.held++
	k.clock += k.takes
	return k.holder == p
}

func (*kernel) PauseSource()  {}
func (*kernel) ResumeSource() {}

func (k *kernel) MayListen(at netip.AddrPort) bool {
	if at.Port() == 0 {
		return false // no socket listens there
	}
	k.listens++
	k.clock += k.takes
	return slices.Contains(k.listeners, at)
}

// dumb is a connection that cannot report which user listens.
type dumb struct{ uct.Connection }

func (dumb) MayListen(netip.AddrPort) bool { return true }

// validator returns a validator that asks the kernel.
func (k *kernel) validator() *Validator {
	return &Validator{Host: k, Conn: k, Rates: &Rates{Clock: func() time.Duration { return k.clock }}, CheckIP: true}
}

// address returns an address with one device for each entry.
func address(entries ...string) *proto.WorkerAddress {
	a := new(proto.WorkerAddress)
	for _, e := range entries {
		a.Devices = append(a.Devices, proto.AddressDevice{Ifaces: []proto.AddressIface{{Addr: []byte(e)}}})
	}
	return a
}

// entries returns the entries of an address.
func entries(a *proto.WorkerAddress) (list []string) {
	if a == nil {
		return nil
	}
	list = []string{}
	a.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
		list = append(list, string(f.Addr))
		return true
	})
	return list
}
