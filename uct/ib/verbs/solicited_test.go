//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestSolicitedOnly checks the rule of soft-RoCE on a simulated device.
func TestSolicitedOnly(t *testing.T) { testSolicitedOnly(t, fakeRig(t)) }

// testSolicitedOnly checks that a queue armed for solicited completions raises no event for sends.
// rdma_rxe counts a send as unsolicited even if it has failed or is flushed (do_complete and
// flush_send_wqe in drivers/infiniband/sw/rxe/rxe_comp.c, rxe_cq_post in rxe_cq.c).
func testSolicitedOnly(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	ch := a.cq.Channel()
	untold := func(what string) {
		t.Helper()
		if _, ok, err := ch.TryEvent(); ok || err != nil {
			t.Errorf("an event for %s: %v", what, err)
		}
	}
	check(t, a.cq.ReqNotify(true))
	b.recv(t, verbs.RecvWR{SGList: b.at(0, 8)})
	a.send(t, verbs.SendWR{ID: 1, Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendSolicited, SGList: a.at(0, 8)})
	a.done(t, 1, verbs.WCSend)
	untold("a send")
	a.send(t, verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 0x1100},
		verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)})
	for k, want := range []verbs.WCStatus{verbs.WCRemAccessErr, verbs.WCWRFlushErr} {
		if wc := a.poll(t, 1)[0]; wc.Status != want {
			t.Fatalf("completion %d: %+v", k, wc)
		}
	}
	untold("sends that have failed")
	check(t, a.cq.ReqNotify(false))
	a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, 8)})
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCWRFlushErr {
		t.Fatalf("%+v", wc)
	}
	if q := must(ch.GetEvent(timeout(t)))(t); q != a.cq {
		t.Error("an event of another queue")
	}
	untold("what came before the last")
}
