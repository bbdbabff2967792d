package ucp

import (
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// A request names places, and for some of them the system has to ask the network who is
// there (uct.WaySeeker). If they are made up nobody answers, and who waits for that does
// nothing else meanwhile. So a request is kept back until all have been asked for, and
// its source is not read meanwhile. Then it is heard once more, and what has not been found
// is no lane. For whom too much time has gone into searches that were in vain nobody is
// asked until that is made up for: he gets the lanes to where a way is known.

// keptBack is a request that is.
type keptBack struct {
	from    *source
	pays    *rate // also when its connection is closed meanwhile; nil: nobody
	message []byte
	proved  bool
	sought  int // ways that are still
	began   time.Duration
	missed  bool // one was not found
	again   bool // it is being heard once more
}

// maxSought is how many ways of a request are sought: each device there is has one.
const maxSought = 8

// origin is who has given the addresses in a message of a source. What came through memory of
// ours is believed (Worker.doubt).
func (s *source) origin() uct.Origin {
	if s.locator() == nil {
		return uct.OriginApplication
	}
	return uct.OriginPeer
}

// again reports whether the message of a source that is being handled was kept back.
func (s *source) again() bool { return s.kept != nil && s.kept.again }

// keepBack has a request with this address heard later, if there is something to seek before.
func (w *Worker) keepBack(from *source, addr *proto.WorkerAddress, message []byte, proved bool) bool {
	if from.kept != nil || from.origin() != uct.OriginPeer {
		return false
	}
	k := &keptBack{from: from, pays: w.rates[from.pays().account.Source()], proved: proved, began: askClock()}
	if k.pays != nil && k.pays.seeks.tired() {
		return false
	}
	addr.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range w.ifaces {
			s, seeks := i.uct.(uct.WaySeeker)
			if i.id == f.Transport && seeks && k.sought < maxSought &&
				s.SeekWay(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}, k.found) {
				k.sought++
			}
		}
		return true
	})
	if k.sought == 0 {
		return false
	}
	k.message = append([]byte(nil), message...)
	from.kept = k
	if p, ok := from.uct.Owner.(uct.SourcePauser); ok {
		p.PauseSource()
	}
	return true
}

// found is told that one of the ways was found, or that there is none.
func (k *keptBack) found(so bool) {
	k.missed = k.missed || !so
	if k.sought--; k.sought > 0 {
		return
	}
	s := k.from
	if k.pays != nil && k.missed {
		k.pays.seeks.add(k.began)
	}
	if s.uct == nil {
		return // who has asked is gone
	}
	k.again = true
	err := s.w.again(s.uct, k.message)
	s.kept = nil
	if err != nil && s.uct != nil {
		s.uct.Drop(err)
	}
	s.readOn()
}
