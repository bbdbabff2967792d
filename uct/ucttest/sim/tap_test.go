package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// text packs itself.
type text string

func (t text) Pack(dst []byte) int { return copy(dst, t) }

// waiter owns completions and ignores them.
type waiter struct{}

func (waiter) Completed(*uct.Completion) {}

// TestTap: a tap gets every event, in order, with its number.
func TestTap(t *testing.T) {
	net := NewNetwork()
	refused := false
	c := New(Options{Network: net, Keyless: true, Plan: func(op fault.Op) (none fault.Effect) {
		switch {
		case op.Kind == fault.AMShort && !refused:
			refused = true
			return fault.Effect{Stall: 1}
		case op.ID == 9:
			return fault.Effect{Drop: ucs.ErrConnectionReset}
		}
		return none
	}})
	md, err := c.OpenMD("sim", nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*uct.Worker, uct.Iface) {
		w, err := uct.NewWorker()
		if err != nil {
			t.Fatal(err)
		}
		i, err := md.OpenIface(w, uct.IfaceParams{Transport: "sim", Device: "sim0"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w, i
	}
	wa, a := open()
	wb, b := open()
	if err := b.SetAMHandler(8, func(*uct.Source, []byte, *uct.AMDesc) error { return ucs.ErrIO }); err != nil {
		t.Fatal(err)
	}
	side := func(addr []byte) string {
		switch {
		case slices.Equal(addr, a.Address()):
			return "a"
		case slices.Equal(addr, b.Address()):
			return "b"
		}
		return "?"
	}
	kinds := map[EventKind]string{
		Sent: "sent", Arrived: "arrived", Ended: "ended", NoRoom: "no room", Failed: "failed", Dropped: "dropped",
	}
	var got []string
	net.Tap(func(e Event) {
		line := fmt.Sprintf("%s #%d %s %s%s", kinds[e.Kind], e.Number, e.Device, side(e.From), side(e.To))
		switch {
		case e.Kind == Sent && e.Flush:
			line += fmt.Sprintf(" flush, remote %v", e.Remote)
		case e.Kind == Sent && e.Op <= fault.AMZcopy:
			line += fmt.Sprintf(" op %d id %d %q", e.Op, e.ID, e.Data)
		case e.Kind == Sent:
			line += fmt.Sprintf(" op %d, %d bytes, atomic %d %d %d", e.Op, e.Size, e.Atomic, e.X, e.Y)
		case e.Kind == NoRoom:
			line += fmt.Sprintf(" op %d id %d", e.Op, e.ID)
		case e.Kind == Arrived:
			line += fmt.Sprintf(" id %d %q", e.ID, e.Data)
		}
		if e.By != nil {
			line += fmt.Sprintf(" by %v", e.By)
		}
		if e.Lost {
			line += " lost"
		}
		if e.Err != nil {
			line += ": " + ucs.StatusOf(e.Err).String()
		}
		got = append(got, line)
	})
	connect := func() uct.Endpoint {
		ep, err := a.NewEndpoint(uct.EndpointParams{DeviceAddr: b.DeviceAddress(), IfaceAddr: b.Address()})
		if err != nil {
			t.Fatal(err)
		}
		return ep
	}
	rounds := func() {
		for range 3 {
			wb.Progress()
			wa.Progress()
		}
	}
	must := func(err error, want ...error) {
		t.Helper()
		if err != nil && !slices.Contains(want, err) {
			t.Fatal(err)
		}
	}
	word := make([]byte, 16)
	mem, err := md.Register(word, uct.AccessRemotePut|uct.AccessRemoteGet|uct.AccessRemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	addr := mem.(*kit.Region).Addr()
	comp := &uct.Completion{Owner: waiter{}, Count: 100}

	ep := connect()
	must(ep.AMShort(3, 0x2020202020202020, []byte("hi"), 0, nil), ucs.ErrNoResource)
	rounds()
	must(ep.AMShort(3, 0x2020202020202020, []byte("hi"), 0, nil))
	_, err = ep.AMBcopy(4, text("copied"), 0, nil)
	must(err)
	must(ep.AMZcopy(5, text("head "), []uct.IOV{{Data: []byte("body")}}, 0, comp), ucs.InProgress)
	rounds()
	must(ep.(uct.RMA).PutShort([]byte("12345678"), addr, nil))
	must(ep.(uct.Atomic).Atomic64Fetch(uct.AtomicAdd, 7, new(uint64), addr, nil, comp), ucs.InProgress)
	must(ep.Flush(uct.FlushRemote, comp), ucs.InProgress)
	rounds()
	_, err = ep.AMBcopy(8, text("refused"), 0, nil)
	must(err)
	rounds()
	ep.Close()
	ep = connect()
	_, err = ep.AMBcopy(9, text("lost"), 0, nil)
	must(err, ucs.InProgress)
	must(ep.Flush(0, comp), ucs.InProgress)
	rounds()
	net.Tap(nil)
	ep.Close()
	if err := md.Deregister(mem); err != nil {
		t.Error(err)
	}
	for _, c := range []interface{ Close() error }{a, b, wa, wb, md} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"no room #0 sim0 ab op 0 id 3",
		`sent #1 sim0 ab op 0 id 3 "        hi"`,
		`sent #2 sim0 ab op 1 id 4 "copied" by copied`,
		`sent #3 sim0 ab op 2 id 5 "head body" by head `,
		`arrived #1 sim0 ab id 3 "        hi"`,
		`arrived #2 sim0 ab id 4 "copied"`,
		`arrived #3 sim0 ab id 5 "head body"`,
		"sent #4 sim0 ab op 3, 8 bytes, atomic 0 0 0",
		"sent #5 sim0 ab op 9, 8 bytes, atomic 0 7 0 by {}",
		"sent #6 sim0 ab flush, remote true by {}",
		"ended #4 sim0 ab",
		"ended #5 sim0 ab",
		"ended #6 sim0 ab",
		`sent #7 sim0 ab op 1 id 8 "refused" by refused`,
		`arrived #7 sim0 ab id 8 "refused"`,
		"dropped #7 sim0 ab: input/output error",
		"failed #0 sim0 ab: connection reset by remote peer",
		`sent #8 sim0 ab op 1 id 9 "lost" by lost lost`,
		"sent #9 sim0 ab flush, remote false by {}",
		"failed #0 sim0 ab: connection reset by remote peer",
		"ended #9 sim0 ab: connection reset by remote peer",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the tap was told (-want +got):\n%s", diff)
	}
}
