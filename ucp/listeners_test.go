package ucp

import (
	"testing"

	"github.com/ucx-go/ucx/proto"
)

// TestListenersAsked: how often the kernel is asked who listens somewhere, for one
// request, whatever it names.
func TestListenersAsked(t *testing.T) {
	v := newTarget(t, "TLS", "tcp", "NET_DEVICES", "lo", "CHECK_SOURCE", "try")
	by := newLocated(loop, true)
	named := func(ports ...uint16) *proto.WorkerAddress {
		a := v.part("tcp")
		lo := a.Devices[0].Ifaces[0]
		a.Devices[0].Ifaces = nil
		for _, p := range ports {
			lo.Addr = []byte{byte(p >> 8), byte(p)}
			a.Devices[0].Ifaces = append(a.Devices[0].Ifaces, lo)
		}
		return a
	}
	look := func(a *proto.WorkerAddress) (asked, believed int, said *proto.WorkerAddress) {
		before := by.listeners
		said = v.admission.validateAddress(v.accounts.sourceOf(&by.Source), a)
		return by.listeners - before, a.NumIfaces(), said
	}
	if asked, believed, said := look(named(10, 10, 11, 10)); asked != 2 || believed != 4 || said != nil {
		t.Errorf("two ports: asked %d times, %d of 4 believed, said %v", asked, believed, said)
	}
	var many []uint16
	for k := range uint16(100) {
		many = append(many, 10+k)
	}
	by.others = many[:50]
	if asked, believed, said := look(named(many...)); asked != maxFound || believed != 0 || said == nil || said.NumIfaces() != 100 {
		t.Errorf("100 ports: asked %d times, %d believed", asked, believed)
	}
	by.others = nil
	if err := v.admission.checkRate(v.accounts.sourceOf(&by.Source)); err != nil {
		t.Fatal(err)
	}
	r := v.admission.rates[v.accounts.sourceOf(&by.Source).account().ledger.Source()]
	r.lookups = timeBudget{2 * askMost, askClock()}
	if asked, believed, said := look(named(10)); asked != 0 || believed != 0 || said == nil {
		t.Errorf("who has taken too long: asked %d times, %d believed, said %v", asked, believed, said)
	}
}
