//go:build linux

package tcp

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// steady makes the calls that an operation of package ucp makes, with all state in one object.
type steady struct {
	comp    uct.Completion
	pend    uct.Pending
	iov     [2]uct.IOV
	ep      uct.Endpoint
	w, peer *uct.Worker
	key     *uct.Rkey
	addr    uint64
	over    int
	got     int
	payload [64]byte
	waiting bool
}

func (s *steady) Completed(*uct.Completion)     { s.over++ }
func (s *steady) Pack(dst []byte) int           { return copy(dst, s.payload[:]) }
func (s *steady) Dispatch(p *uct.Pending) error { s.waiting = false; return nil }

// finish progresses both sides until the operation that returned err has completed.
func (s *steady) finish(err error) {
	for want := s.over + 1; err == ucs.InProgress && s.over < want; {
		s.peer.Progress()
		s.w.Progress()
	}
	s.comp.Count = 1
}

// deliver progresses the peer until it has received n more messages.
func (s *steady) deliver(n int) {
	for want := s.got + n; s.got < want; {
		s.w.Progress()
		s.peer.Progress()
	}
}

// TestNoAllocations: in steady state no operation allocates, on either side.
func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	a, b, ep := pair(t)
	target := make([]byte, 1<<20)
	s := &steady{ep: ep, w: a.w, peer: b.w, key: &uct.Rkey{}, addr: b.expose(target)}
	s.comp.Owner, s.comp.Count = s, 1
	s.pend.Owner = s
	s.iov = [2]uct.IOV{{Data: make([]byte, 30000)}, {Data: make([]byte, 500)}}
	big := []uct.IOV{{Data: make([]byte, len(target))}}
	b.iface.SetAMHandler(1, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error { s.got++; return nil })
	for name, op := range map[string]func(){
		"idle progress": func() { s.w.Progress() },
		"short": func() {
			s.ep.AMShort(1, 2, s.payload[:], 0, &s.comp)
			s.deliver(1)
		},
		"batch": func() {
			for range 10 {
				err := s.ep.AMShort(1, 2, s.payload[:], 0, &s.comp)
				if err == ucs.InProgress {
					s.comp.Count++
				}
			}
			s.deliver(10)
			s.comp.Count = 1
		},
		"long short": func() {
			s.ep.AMShort(1, 2, s.iov[0].Data[:8000], 0, nil)
			s.deliver(1)
		},
		"short iov": func() {
			s.ep.AMShortIOV(1, s.iov[1:], 0, nil)
			s.deliver(1)
		},
		"bcopy": func() {
			s.ep.AMBcopy(1, s, 0, nil)
			s.deliver(1)
		},
		"bcopy now": func() {
			s.ep.AMBcopy(1, s, uct.SendNow, nil)
			s.deliver(1)
		},
		"zcopy": func() {
			err := s.ep.AMZcopy(1, s, s.iov[:], 0, &s.comp)
			s.deliver(1)
			s.finish(err)
		},
		"put":       func() { s.finish(s.ep.(uct.RMA).PutZcopy(s.iov[:], s.addr, s.key, &s.comp)) },
		"large put": func() { s.finish(s.ep.(uct.RMA).PutZcopy(big, s.addr, s.key, &s.comp)) },
		"flush": func() {
			s.ep.AMShort(1, 2, nil, 0, nil)
			s.finish(s.ep.Flush(uct.FlushRemote, &s.comp))
		},
		"check": func() { s.ep.Check(nil) },
		"pending": func() {
			// An incomplete zero-copy message makes the others wait.
			for s.ep.AMZcopy(1, nil, s.iov[:], 0, nil) == nil {
			}
			if s.ep.PendingAdd(&s.pend) == nil {
				s.waiting = true
			}
			for s.waiting {
				s.w.Progress()
				s.peer.Progress()
			}
		},
		"arm": func() { s.w.Arm() },
		"register": func() {
			h, err := b.md.Register(target, uct.AccessRemotePut)
			if err == nil {
				err = b.md.Deregister(h)
			}
			if err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				op()
			}
			if n := testing.AllocsPerRun(100, op); n != 0 {
				t.Errorf("%v allocations", n)
			}
			for range 20 { // nothing is left over for the next round
				s.w.Progress()
				s.peer.Progress()
			}
		})
	}
}

// TestEndpointMemory: an idle connected endpoint takes at most 2 KiB on each side.
func TestEndpointMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector needs memory")
	}
	a, b, first := pair(t)
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	const n = 1000
	if !enoughFiles(2*n + 100) {
		t.Skipf("%d connections need more descriptors than RLIMIT_NOFILE allows", n)
	}
	before := inUse()
	eps := []*endpoint{first}
	for range n {
		ab, ba := a.connect(b), b.connect(a)
		eps = append(eps, ab, ba)
		until(t, "connect", connected(ab, ba), a, b)
		// The endpoints have been used.
		ab.AMShort(1, 0, nil, 0, nil)
		ba.AMShort(1, 0, nil, 0, nil)
		ab.AMShort(1, 0, nil, 0, nil)
		ba.AMShort(1, 0, nil, 0, nil)
	}
	until(t, "messages", func() bool { return len(a.got) == 2*n && len(b.got) == 2*n }, a, b)
	a.got, b.got = nil, nil
	for range 1000 {
		a.w.Progress()
		b.w.Progress()
	}
	each := (inUse() - before) / (2 * n)
	t.Logf("%d bytes for each end", each)
	if each > 2048 {
		t.Errorf("an idle endpoint costs %d bytes", each)
	}
	runtime.KeepAlive(eps)
}

// TestConnSize: a connection, with the 8 bytes that the runtime puts before it, stays in the size
// class of 640 bytes. The next class is 704.
func TestConnSize(t *testing.T) {
	if n := unsafe.Sizeof(conn{}); n > 632 {
		t.Errorf("a connection takes %d bytes", n)
	}
}
