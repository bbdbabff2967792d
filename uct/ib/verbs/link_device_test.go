//go:build linux

package verbs_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// counter returns a counter of a device's port.
func counter(t *testing.T, device, name string) int {
	t.Helper()
	b := must(os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + name))(t)
	return must(strconv.Atoi(strings.TrimSpace(string(b))))(t)
}

// event waits for an event of a type; it skips others.
func (s *side) event(t *testing.T, typ verbs.EventType) verbs.AsyncEvent {
	t.Helper()
	for {
		e := must(s.ctx.GetAsyncEvent(timeout(t)))(t)
		if e.Type == typ {
			return e
		}
		t.Logf("before %v: %v", typ, e)
	}
}

// TestLinkDown takes the link down under connections. Those with outstanding sends fail, whatever
// the number of retries. Idle ones do not fail, and work when the link is up again.
func TestLinkDown(t *testing.T) {
	r := ours(t)
	t.Cleanup(func() { rdmatest.LinkUp(t) })
	type conn struct{ a, b *side }
	var busy []conn
	for n := range uint8(7) {
		// Without a receive the send stays outstanding forever.
		a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RNRRetry, a.RetryCount, a.Timeout = 7, n, 10 })
		busy = append(busy, conn{a, b})
		a.send(t, verbs.SendWR{ID: uint64(n), Opcode: verbs.WRSend, SGList: a.at(0, 8)},
			verbs.SendWR{ID: 50, Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	late, lateB := r.pair(t, verbs.RC, impatient(3))
	late.works(t, lateB, 1)
	idle, idleB := r.pair(t, verbs.RC)
	idle.works(t, idleB, 2)
	idle.recv(t, verbs.RecvWR{ID: 1, SGList: idle.at(0, 8)})
	if p := must(idle.ctx.QueryPort(1))(t); p.State != verbs.PortActive {
		t.Errorf("the port is %v", p.State)
	}

	command(t, "ip link set veth0 down")
	for _, s := range []*side{idle, idleB} { // both ends of the cable see it
		if e := s.event(t, verbs.EventPortErr); e.Port != 1 {
			t.Errorf("%v", e)
		}
		if p := must(s.ctx.QueryPort(1))(t); p.State != verbs.PortDown {
			t.Errorf("the port is %v", p.State)
		}
	}
	statuses := make(map[verbs.WCStatus]int)
	lost := func(s *side, id uint64) {
		t.Helper()
		wc := s.poll(t, 2)
		switch wc[0].Status {
		case verbs.WCLocQPOpErr, verbs.WCRetryExcErr:
		case verbs.WCWRFlushErr: // rxe of Linux 6.12 may also flush the failed request
		default:
			t.Errorf("%+v (%v)", wc[0], wc[0].Status)
		}
		if wc[0].ID != id {
			t.Errorf("%+v, want %d", wc[0], id)
		}
		if wc[1].ID != 50 || wc[1].Status != verbs.WCWRFlushErr {
			t.Errorf("behind it: %+v (%v)", wc[1], wc[1].Status)
		}
		statuses[wc[0].Status]++
		if st := s.state(t); st != verbs.QPErr {
			t.Errorf("in %v", st)
		}
	}
	for n, c := range busy {
		lost(c.a, uint64(n))
		c.b.nothing(t, "the receiver")
	}
	// A send posted now fails as well.
	late.send(t, verbs.SendWR{ID: 9, Opcode: verbs.WRSend, SGList: late.at(0, 8)}, verbs.SendWR{ID: 50, Opcode: verbs.WRSend, SGList: late.at(0, 8)})
	lost(late, 9)
	idle.nothing(t, "the idle end")
	idleB.nothing(t, "the other idle end")
	t.Logf("statuses: %v", statuses)

	rdmatest.LinkUp(t)
	for _, s := range []*side{idle, idleB} {
		if e := s.event(t, verbs.EventPortActive); e.Port != 1 {
			t.Errorf("%v", e)
		}
		if p := must(s.ctx.QueryPort(1))(t); p.State != verbs.PortActive {
			t.Errorf("the port is %v", p.State)
		}
	}
	for _, c := range append(busy, conn{late, lateB}) {
		c.a.again(t, c.b)
	}
	fill(idleB.buf[:8], 77)
	idleB.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: idleB.at(0, 8)})
	idleB.done(t, 2, verbs.WCSend)
	idle.done(t, 1, verbs.WCRecv)
	if idle.buf[0] != 77 || idle.buf[7] != 84 {
		t.Errorf("wrong bytes after all: %d", idle.buf[:8])
	}
	idle.works(t, idleB, 5)
}

// TestRemoval deletes the device under active queue pairs. Linux waits uninterruptibly for
// processes that have it open. rdma_rxe neither takes the device from them nor notifies them (it
// has no disassociate_ucontext, as of Linux 6.1), so operations in flight continue. Another driver
// may end the events with ucs.ErrNoDevice and all other calls with errors.
func TestRemoval(t *testing.T) {
	r := ours(t)
	d := named(t, "rxe0")
	before := resources(t)
	a, b := r.pair(t, verbs.RC)
	a.works(t, b, 1)
	events := make(chan error, 1)
	go func() {
		for {
			e, err := a.ctx.GetAsyncEvent(context.Background())
			if err != nil {
				events <- err
				return
			}
			t.Logf("event: %v", e)
		}
	}()
	deleted := make(chan error, 1)
	go func() {
		_, err := run("rdma link del rxe0")
		deleted <- err
	}()
	gone := false
	rounds := 0
	for end := time.Now().Add(eventTimeout); !gone || rounds < 50; rounds++ {
		a.works(t, b, byte(rounds))
		if _, err := os.Stat(d.Path); err != nil {
			gone = true
		}
		if time.Now().After(end) {
			t.Fatalf("%s is still there", d.Path)
		}
	}
	select {
	case err := <-deleted:
		t.Errorf("deleted while it is open: %v", err)
	default:
	}
	t.Logf("%d rounds of traffic without a device", rounds)
	if c, err := d.Open(); err == nil {
		t.Error("it can be opened")
		c.Close()
	} else {
		wantErr(t, err, ucs.ErrNoDevice, "opening what is gone")
		if !strings.Contains(err.Error(), d.Path+": no such file or directory") {
			t.Error(err)
		}
	}
	// On an open device new objects may be created or refused; nothing may break.
	pd, err := a.ctx.AllocPD()
	t.Logf("a new domain: %v", err)
	if err == nil {
		check(t, pd.Close())
	}
	check(t, b.ctx.Close())
	check(t, a.ctx.Close())
	wantErr(t, <-events, ucs.ErrCanceled, "the end of the events")
	select {
	case err := <-deleted:
		check(t, err)
	case <-time.After(eventTimeout):
		t.Error("the deletion does not end although nobody has the device open")
	}
	command(t, "rdma link add rxe0 type rxe netdev veth0")
	ready := func() bool { // its GIDs are added later
		devices = readDevices()
		for _, d := range must(devices())(t) {
			if d.Name == "rxe0" && len(d.Ports) > 0 {
				for _, g := range d.Ports[0].GIDs {
					if _, err := os.Stat(d.Path); err == nil && g.GID == r.gid {
						return g.Index == r.local.Index
					}
				}
			}
		}
		return false
	}
	for end := time.Now().Add(eventTimeout); !ready(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("rxe0 does not come back")
		}
	}
	again := ours(t)
	c, e := again.pair(t, verbs.RC)
	c.works(t, e, 9)
	check(t, c.ctx.Close())
	check(t, e.ctx.Close())
	if after := resources(t); count(after) != count(before) {
		t.Errorf("resources before\n%sand after\n%s", before, after)
	}
}

// count returns resource counts without the numbers of devices.
func count(resources string) string {
	var lines []string
	for line := range strings.Lines(resources) {
		if _, rest, ok := strings.Cut(line, ": "); ok {
			lines = append(lines, rest)
		}
	}
	if len(lines) == 2 && lines[0] > lines[1] {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return strings.Join(lines, "")
}
