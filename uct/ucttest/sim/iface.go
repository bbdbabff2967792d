package sim

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// iface is one end of the network. Fields without a remark belong to the
// goroutine that progresses it.
type iface struct {
	net     *Network
	o       *Options
	domain  *domain
	worker  *uct.Worker
	attr    uct.IfaceAttr
	id      uint64
	dev     []byte
	addr    []byte
	bell    *event.Bell     // nil when no event descriptor was announced
	as      uct.PeerRelease // what peers are to be taken for
	shuffle *rand.Rand

	handlers   kit.Handlers
	waiting    kit.Arbiter
	failures   kit.Failures
	reporter   kit.Reporter
	endpoints  []*endpoint // open ones; replaced, not changed, when one closes
	batch      []*packet
	sources    map[*endpoint]*source
	paused     map[*endpoint]bool
	kept       []*packet // received data that handlers keep, by index of the descriptor
	ops        *op       // free ones
	inProgress bool

	// Guarded by net.mu. The round is written by the owner only, who may read
	// it without.
	round    uint64
	inbox    []*packet // in the order of arrival
	incoming map[*endpoint]struct{}
	armed    bool
	deaf     bool // not for messages
	closed   bool
}

var _ uct.Iface = (*iface)(nil)

func openIface(d *domain, w *uct.Worker, r uct.Resource, dev int, p uct.IfaceParams) (*iface, error) {
	net := d.o.Network
	i := &iface{
		net:      net,
		o:        d.o,
		domain:   d,
		worker:   w,
		attr:     d.o.attributes(r, dev),
		id:       net.number(),
		dev:      binary.LittleEndian.AppendUint64(nil, net.id),
		as:       p.PeerRelease,
		incoming: make(map[*endpoint]struct{}),
		sources:  make(map[*endpoint]*source),
		paused:   make(map[*endpoint]bool),
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
	net.mu.Unlock()
	d.ifaces.Add(1)
	w.AddProgress(i)
	return i, nil
}

// waker takes the readiness of the bell; progress does the rest.
type waker struct{ *iface }

// HandleEvent implements event.Handler.
func (w waker) HandleEvent(event.Events) { w.bell.Clear() }

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// SetAMHandler implements uct.Iface.
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }

// Arm implements uct.Armer. Waiting is right when only a peer can go on.
func (i *iface) Arm() error { return i.ArmFor(uct.EventAny) }

// ArmFor implements uct.EventArmer.
func (i *iface) ArmFor(events uct.EventFlags) error {
	i.net.mu.Lock()
	defer i.net.mu.Unlock()
	if len(i.inbox) > 0 || !i.failures.Empty() || slices.ContainsFunc(i.endpoints, (*endpoint).busy) {
		return ucs.ErrBusy
	}
	for _, e := range i.endpoints {
		e.watching = !e.pending.Empty() || events&uct.EventSendComp != 0 && e.ops.head != nil
	}
	i.armed, i.deaf = true, events&uct.EventRecv == 0
	return nil
}

// Close implements uct.Iface. While endpoints are open it returns ucs.ErrBusy
// and closes nothing. Endpoints that lead here fail.
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
	delete(i.net.ifaces, i.id)
	maps.DeleteFunc(i.net.ends, func(_ uint64, e *endpoint) bool { return e.home == i })
	for e := range i.incoming {
		e.lose(ucs.ErrConnectionReset)
	}
	for _, p := range i.inbox {
		i.net.recycleLocked(p)
	}
	i.inbox = nil
	i.net.mu.Unlock()
	for from := range i.sources {
		i.forgetSource(from)
	}
	i.worker.RemoveProgress(i)
	i.domain.ifaces.Add(-1)
	if i.bell != nil {
		return i.bell.Close()
	}
	return nil
}
