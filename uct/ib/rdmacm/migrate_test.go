//go:build linux

package rdmacm_test

import (
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/internal/ucm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// TestMigrateFromClosed checks that an ID whose channel is closed counts as closed, even if another
// channel has the same descriptor number now.
func TestMigrateFromClosed(t *testing.T) {
	r, _ := fakeRig(t)
	from := must(r.channel())(t)
	id := must(from.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	number := from.FD()
	check(t, from.Close())
	to := must(r.channel())(t)
	defer to.Close()
	if to.FD() != number {
		t.Logf("descriptor %d was not given out again, but %d", number, to.FD())
	}
	other := must(to.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	wantErr(t, id.Migrate(to), ucs.ErrCanceled, "an ID of a closed channel")
	check(t, id.Close())
	check(t, other.BindAddr(netip.AddrPortFrom(r.server, 0)))
}

// slow is a connection manager that delays an answer with an event until it is released.
type slow struct {
	ucm.File
	read chan struct{} // closed when an event has been read
	let  chan struct{} // closed to release the answer
}

func (s *slow) Command(cmd uint32, in, data []byte) syscall.Errno {
	e := s.File.Command(cmd, in, data)
	if cmd == cmabi.RDMA_USER_CM_CMD_GET_EVENT && e == 0 {
		close(s.read)
		<-s.let
	}
	return e
}

// TestMigrateWhileReading checks that an event is not lost if its ID moves to another channel while
// the event is being read.
func TestMigrateWhileReading(t *testing.T) {
	r, k := fakeRig(t)
	s := &slow{File: must(k.Open())(t), read: make(chan struct{}), let: make(chan struct{})}
	from, to := must(rdmacm.NewChannel(s))(t), must(r.channel())(t)
	defer from.Close()
	defer to.Close()
	id := must(from.CreateID(rdmacm.PortSpaceTCP, 0))(t)
	check(t, id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(r.server, 1), time.Second))
	type result struct {
		e   *rdmacm.Event
		err error
	}
	got, moved := make(chan result, 1), make(chan error, 1)
	go func() {
		e, err := from.PollEvent()
		got <- result{e, err}
	}()
	<-s.read
	go func() { moved <- id.Migrate(to) }()
	for range 1000 { // enough time for an error to show
		runtime.Gosched()
	}
	close(s.let)
	if g := <-got; g.err != nil || g.e.ID != id || g.e.Type != rdmacm.EventAddrResolved {
		t.Errorf("%+v, %v", g.e, g.err)
	}
	check(t, <-moved)
}
