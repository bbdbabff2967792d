package sim

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// iface implements uct.Iface. Only the goroutine that progresses the iface may use its fields,
// unless noted otherwise.
type iface struct {
	uct.BasicProcessIface
	net         *Network
	o           *Options
	domain      *domain
	worker      *uct.Worker
	reclaim     func() bool
	attr        uct.IfaceAttr
	id          uint64
	dev         []byte
	addr        []byte
	bell        *event.Bell     // nil if no event descriptor is announced
	peerRelease uct.PeerRelease // assumed C UCX release of the peers
	shuffle     *rand.Rand

	handlers   kit.Handlers
	waiting    kit.Arbiter
	failures   kit.Failures
	reporter   kit.Reporter
	endpoints  []*endpoint // open endpoints, in no particular order
	working    []*endpoint // endpoints that this round progresses
	batch      []*packet
	sources    map[*endpoint]*source
	paused     map[*endpoint]bool
	kept       []*packet // received data that handlers keep, by AMDesc.Index
	ops        *op       // free list of operations
	inProgress bool

	// The following fields are guarded by net.mu. Only the owner's goroutine writes round, so it
	// may read round without the lock.
	round        uint64
	inbox        []*packet // messages in the order of arrival
	exited       func()    // of IfaceParams.SenderExited
	incoming     map[*endpoint]struct{}
	actives      []*endpoint // endpoints that have work
	armed        bool
	noRecvWakeup bool // the iface was armed without EventRecv: messages do not wake it
	closed       bool
	flying       int      // outstanding operations of all endpoints
	holes        []uint64 // times at which messages that their senders have not finished are given up
}

var _ interface {
	uct.Iface
	uct.ProcessIface
	uct.Progressor
} = (*iface)(nil)

func openIface(d *domain, w *uct.Worker, r uct.Resource, dev int, p uct.IfaceParams) (*iface, error) {
	net := d.o.Network
	i := &iface{
		net:         net,
		o:           d.o,
		domain:      d,
		worker:      w,
		attr:        d.o.attributes(r, dev),
		id:          net.number(),
		dev:         binary.LittleEndian.AppendUint64(nil, net.id),
		peerRelease: p.PeerRelease,
		reclaim:     p.Reclaim,
		exited:      p.SenderExited,
		incoming:    make(map[*endpoint]struct{}),
		sources:     make(map[*endpoint]*source),
		paused:      make(map[*endpoint]bool),
	}
	i.handlers.Init(w.Log())
	i.reporter = kit.Reporter{OnError: p.OnError, Level: log.LevelDebug, Log: w.Log()}
	i.addr = binary.LittleEndian.AppendUint64(nil, i.id)
	if d.o.Reorder != 0 {
		i.shuffle = rand.New(rand.NewPCG(d.o.Reorder, i.id))
	}
	if i.attr.Events&uct.EventFD != 0 {
		bell, err := event.NewBell(w.Events(), waker{i})
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		i.bell = bell
	}
	net.mu.Lock()
	net.ifaces[i.id] = i
	if at := d.o.Place; at != nil {
		net.places[at] = append(net.places[at], i)
	}
	net.mu.Unlock()
	d.ifaces.Add(1)
	w.AddProgress(i)
	return i, nil
}

// waker handles the iface's wakeup event (bell). It only clears the event, because Progress does
// the work.
type waker struct{ *iface }

// HandleEvent implements event.Handler.
func (w waker) HandleEvent(event.Events) { w.bell.Clear() }

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// SetAMHandler implements uct.Iface.
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }

// Arm implements uct.Progressor. It returns nil if only an action of a peer can make progress
// possible.
func (i *iface) Arm(events uct.EventFlags) error {
	i.net.mu.Lock()
	defer i.net.mu.Unlock()
	if i.hasArrived() || !i.failures.Empty() || slices.ContainsFunc(i.actives, (*endpoint).busy) {
		return ucs.ErrBusy
	}
	if i.bell == nil && i.o.Medium != nil && slices.ContainsFunc(i.actives, (*endpoint).hasWork) {
		return ucs.ErrBusy // nothing would wake a sleeper
	}
	for _, e := range i.actives {
		e.watching = !e.pending.Empty() || events&uct.EventSendComp != 0 && e.ops.head != nil
	}
	i.armed, i.noRecvWakeup = true, events&uct.EventRecv == 0
	return nil
}

// Close implements uct.Iface. While endpoints are open it returns ucs.ErrBusy and closes
// nothing. Peers notice the end as that of a process (Options.Death).
func (i *iface) Close() error {
	if n := len(i.endpoints); n > 0 {
		return fmt.Errorf("sim: closing an iface with %d open endpoints: %w", n, ucs.ErrBusy)
	}
	i.net.mu.Lock()
	if i.closed {
		i.net.mu.Unlock()
		return nil
	}
	i.closed = true
	i.net.remove(i)
	i.unread()
	for _, e := range i.senders() {
		e.noticeEnd()
	}
	i.net.mu.Unlock()
	for _, from := range slices.SortedFunc(maps.Keys(i.sources), func(a, b *endpoint) int { return cmp.Compare(a.number, b.number) }) {
		i.forgetSource(from)
	}
	i.worker.RemoveProgress(i)
	i.domain.ifaces.Add(-1)
	i.o.claim(Interfaces, -1)
	if i.bell != nil {
		return i.bell.Close()
	}
	return nil
}
