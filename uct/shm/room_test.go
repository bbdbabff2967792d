//go:build linux

package shm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// closeFailed closes the endpoints whose failure was reported to a host, as an application does.
func closeFailed(h *ucttest.Host) (closed int) {
	for _, f := range h.Failures {
		f.Endpoint.Close()
		closed++
	}
	h.Failures = nil
	return closed
}

// TestPeersComeAndGo: a server connects to many interfaces that close while their process lives.
// Few endpoints to them remain open at a time, although no call checks them, and the endpoints to
// live interfaces stay.
func TestPeersComeAndGo(t *testing.T) {
	const peers, most, stay = 600, 256, 40
	threeWays(t, func(t *testing.T, transport, s string) {
		f := fixtureWith(t, transport, s)
		if f.Config == nil {
			f.Config = new(config.Set)
		}
		// A container may have only 64 MB in /dev/shm.
		if err := f.Config.Modify(strings.ToUpper(transport)+"_SEG_SIZE", "512"); err != nil {
			t.Fatal(err)
		}
		server := f.Open(t)
		for range stay {
			server.Connect(t, f.Open(t))
		}
		open, peak := 0, 0
		for range peers {
			w, err := uct.NewWorker()
			if err != nil {
				t.Fatal(err)
			}
			i, err := server.Domain.OpenIface(w, uct.IfaceParams{Transport: transport, Device: deviceName}, f.Config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := server.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: i.DeviceAddress(), IfaceAddr: i.Address()}); err != nil {
				t.Fatal(err)
			}
			open++
			if err := errors.Join(i.Close(), w.Close()); err != nil {
				t.Fatal(err)
			}
			server.Worker.Progress()
			open -= closeFailed(server)
			peak = max(peak, open)
		}
		if peak > most {
			t.Errorf("%d endpoints to peers that are gone, want %d at most", peak, most)
		}
		x := server.Iface.(*iface)
		x.lookAtPeers(x.endpoints.Len(), 0)
		ucttest.Settle(server)
		closeFailed(server)
		if n := x.endpoints.Len(); n != stay {
			t.Errorf("%d endpoints are left, want %d", n, stay)
		}
	})
}

// TestMessagesOfTheGone: the last messages of a peer whose ring is closed are delivered before the
// endpoint to it fails.
func TestMessagesOfTheGone(t *testing.T) {
	f := &ucttest.Fixture{Component: component{posixName}}
	server, client := f.Open(t), f.Open(t)
	n := count(t, server, 2)
	there, back := client.Connect(t, server), server.Connect(t, client)
	const messages = 100
	for range messages {
		if err := there.AMShort(2, 0, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	client.Iface.(*iface).rx.close()
	server.Connect(t, f.Open(t))
	for server.Failed(back) == nil {
		server.Worker.Progress()
		if *n < messages && len(server.Failures) > 0 {
			t.Fatalf("the endpoint failed behind %d messages of %d", *n, messages)
		}
	}
	if *n != messages {
		t.Errorf("%d messages, want %d", *n, messages)
	}
}

// limitSegments limits how many segments of peers can be attached.
func limitSegments(t *testing.T, n int) {
	m := &attachedTotal
	limit, next, near := m.limit, m.next, m.near
	t.Cleanup(func() { m.limit, m.next, m.near, m.looked = limit, next, near, 0 })
	m.limit, m.next, m.near, m.looked = n, maxAttached, false, sinceLoaded()+time.Hour
}

// TestRoomByReclaim: when no more segments can be attached, the interface calls Reclaim, which can
// find and close the endpoints whose peers are gone.
func TestRoomByReclaim(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		logs := logtest.Watch(t)
		logs.Expect("will be closed")
		server, live, dead, next := f.Open(t), f.Open(t), f.Open(t), f.Open(t)
		stays, goes := server.Connect(t, live), server.Connect(t, dead)
		dead.Iface.(*iface).rx.close()
		asked := 0
		server.Iface.(*iface).params.Reclaim = func() bool {
			asked++
			if err := stays.(uct.ProcessEndpoint).Gone(); err != nil || !stays.(uct.ProcessEndpoint).Idle() {
				t.Errorf("endpoint that stays: %v", err)
			}
			if asked > 1 {
				return false
			}
			ucttest.WantStatus(t, "endpoint to nobody", goes.(uct.ProcessEndpoint).Gone(), ucs.ErrConnectionReset)
			goes.Close()
			return true
		}
		limitSegments(t, attachedTotal.count)
		server.Connect(t, next)
		if asked != 1 {
			t.Errorf("asked %d times for room, want once", asked)
		}
		_, err := server.Iface.NewEndpoint(uct.EndpointParams{
			DeviceAddr: server.Iface.DeviceAddress(), IfaceAddr: f.Open(t).Iface.Address(),
		})
		ucttest.WantStatus(t, "one too many", err, ucs.ErrExceedsLimit)
		ucttest.WantStatus(t, "one too many", err, ucs.ErrUnreachable)
		if asked != 2 {
			t.Errorf("asked %d times for room, want twice", asked)
		}
	})
}

// TestRoomForMappings: mappings of the rest of the program reduce how many segments of peers can be
// attached.
func TestRoomForMappings(t *testing.T) {
	logs := logtest.Watch(t)
	logs.Expect("will be closed")
	have, reads := 30_000, 0
	m := mappedTotal{limit: maxAttached, next: firstCount}
	m.mappings = func() (int, int) { reads++; return have + m.count, 65_530 }
	n := 0
	for ; m.take(1) == nil; n++ {
		if n > maxAttached {
			t.Fatal("no limit")
		}
	}
	if want := (65_530 - have) / 4 * 3; n != want {
		t.Errorf("%d segments, want %d", n, want)
	}
	if reads > 40 {
		t.Errorf("the mappings were counted %d times", reads)
	}
	have = 65_000 // the program has made more mappings
	for range n / 2 {
		m.give(1)
	}
	m.next = 0
	ucttest.WantStatus(t, "segments of peers", m.take(1), ucs.ErrExceedsLimit)
	have, most := readMappings()
	if have == 0 || most == 0 {
		t.Errorf("%d mappings of %d", have, most)
	}
}

// TestRoomForDescriptors: descriptors that watch processes are closed when a segment needs one.
func TestRoomForDescriptors(t *testing.T) {
	h, p, _ := survivor(t, posixName, "")
	i := h.Iface.(*iface)
	if !i.makeRoom(unix.EMFILE) {
		t.Error("nothing gives way")
	}
	if i.makeRoom(unix.EMFILE) {
		t.Error("something gives way twice")
	}
	p.kill()
	ucttest.Settle(h)
	if len(h.Failures) > 0 {
		t.Error("told without a descriptor")
	}
}

// TestUnowned checks that a mapper detects when the owner of a segment has closed it.
func TestUnowned(t *testing.T) {
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			needSegments(t, c.component.Name())
			noSegments(t)
			m, err := c.component.mapper(setting(t, c.settings))
			if err != nil {
				t.Fatal(err)
			}
			d := openDomain(c.component, m)
			seg, err := m.create(segmentOptions{size: pageSize, what: "ring"})
			if err != nil {
				t.Fatal(err)
			}
			ref, err := m.parseAddress(m.appendAddress(nil, seg.id))
			if err != nil {
				t.Fatal(err)
			}
			a, err := d.attached.attach(ref, 0)
			if err != nil {
				t.Fatal(err)
			}
			if m.unowned(ref, a.ident) {
				t.Error("nobody has a segment that its owner has")
			}
			if err := m.destroy(seg); err != nil {
				t.Error(err)
			}
			if !m.unowned(ref, a.ident) {
				t.Error("somebody has a segment that its owner has closed")
			}
			d.attached.release(a)
		})
	}
}
