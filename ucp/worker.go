package ucp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/backoff"
	"github.com/ucx-go/ucx/ucp/internal/bufpool"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucp/internal/idtable"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucp/internal/wakeset"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// WorkerParams are the parameters of Context.NewWorker.
type WorkerParams struct {
	// ThreadMode selects how goroutines share the worker: with ThreadModeMulti any
	// goroutine may make any call. See the package comment.
	ThreadMode ucs.ThreadMode

	// Epoll, if not nil, is an epoll set of the application to which the worker adds
	// itself. Worker.EventFD is refused then.
	Epoll *EpollTarget

	// Events are the events that wake a sleeper on the worker's descriptor; 0 means all.
	// Further events may wake it, see WorkerAttr.Wakeup. Events need FeatureWakeup.
	Events WakeupEvents

	// UserData belongs to the application; WorkerAttr returns it. The user data of epoll
	// events is EpollTarget.Data.
	UserData any

	// Accept, unless nil, decides about each connection that a peer makes to the worker,
	// before a byte of it is read. It runs inside progress, as callbacks do, and may only
	// query the worker; if it panics the connection is refused. It is not called for peers
	// in shared memory, which belong to the same user, nor for connections that this worker
	// makes. With ContextParams.TLS it is called twice for a connection inside TLS: before
	// a byte is read, when PeerInfo.TLS is nil, and after the handshake, when PeerInfo.TLS
	// identifies the peer. The second call is omitted if the first one refuses the
	// connection, or if the handshake fails.
	Accept func(PeerInfo) bool

	// Closed refuses requests of peers unless the application has an endpoint to them or
	// has allowed them (Worker.Allow): no endpoint is made for them, and their connections
	// are dropped. Messages that need no endpoint are still received. UCX_CLOSED=y does the
	// same for all workers.
	Closed bool

	// Token puts a random secret into the worker's address and refuses requests of peers
	// that do not prove that they have it: no endpoint is made for them, and their
	// connections are dropped. Peers of this library prove it without help from the
	// application. Messages that need no endpoint are still received. Keep the address from
	// processes that must not connect. UCX_TOKEN does the same for all workers. The
	// stricter of the two modes applies, in addition to Closed.
	Token TokenMode

	// Wait selects how calls that wait spend their time. With WaitAdaptive the setting
	// UCX_WAIT decides.
	Wait WaitPolicy

	// Background, in ThreadModeMulti, gives the worker a goroutine that progresses it while
	// no other goroutine waits on it, so that peers are served while the process does
	// something else: their puts and gets, flushes and closes may need that. The goroutine
	// sleeps while nothing happens, and ends with the worker. A goroutine that waits on the
	// worker (Run, Wait and similar calls) progresses it as usual; the first event after
	// the last such wait may be handled 2 ms late. Callbacks also run on the background
	// goroutine, where a panic ends the process. Interfaces that cannot wake a sleeper are
	// not opened.
	Background bool

	// ClientID is sent to the servers that endpoints with EndpointSendClientID connect to.
	ClientID uint64

	// AMAlignment is the alignment of the data of active messages, in bytes: a power of two
	// up to MaxAMAlignment. It applies if the handler was set with AMPersistentData, if a
	// message came in several packets, and after AMMessage.Keep. 0 means 1.
	AMAlignment int

	// Name names the worker in logs; if empty a name is generated.
	Name string
}

// maxThreadMode is the highest thread mode that NewWorker accepts.
const maxThreadMode = ucs.ThreadModeMulti

// WorkerAttr describes a worker.
type WorkerAttr struct {
	ThreadMode ucs.ThreadMode
	Name       string
	UID        uint64 // the UID of its address, see Address.UID
	UserData   any    // as WorkerParams.UserData

	// MaxAMHeader is the length, in bytes, of the longest header of an active message: it
	// fits, with the library's own header, into a message of any of the worker's
	// transports. It is 0 without FeatureAM.
	MaxAMHeader int

	// Wakeup are the events that wake a sleeper on the worker's descriptor; they may be
	// more than WorkerParams.Events. It is 0 without FeatureWakeup.
	Wakeup WakeupEvents
}

// Worker is a progress engine: it sends and receives for its endpoints. The package comment
// says which goroutines may use it.
type Worker struct {
	_ noCopy

	// The fields that most calls read are next to each other: insert no other field between them.
	owner         ownership
	due           atomic.Bool // a round of progress ends with finishRound, which may find nothing to do
	reclaimWanted atomic.Bool // another worker asks this one, in finishRound, to free resources that peers occupy
	uctw          *uct.Worker
	pool          requestPool
	packing       packing            // of the send that is being made (sendCopied)
	copying       list.List[Request] // requests whose data the CPU copies, one piece in each round of progress
	dispatched    list.List[Request] // requests that finished during their dispatch and are still to be completed

	ctx    *Context
	params WorkerParams
	name   string
	uuid   uint64

	ifaces []*iface
	mds    []uct.MemoryDomain // memory domains, by index in the context

	unopened []skippedResource // resources of the context whose interface could not be opened

	families []family // families that the features of the context turn on

	pieceSize int
	buffers   bufpool.Pool // buffers for messages without a posted receive
	endpoints idtable.Table[Endpoint]

	own        ownAddress
	selection  laneSelection
	wireups    wireupState
	handshakes handshakes
	ends       endpointEnds
	conns      connState // state of endpoints by socket address
	peers      peerTable
	admission  admission
	accounts   accountTable
	rights     memoryRights
	wake       wakeup

	usage       *usage      // counters of the decision tables, nil unless UCX_PROTO_INFO=used
	background  *background // progresses the worker while no other goroutine does
	keep        keepalive
	stats       Stats
	dispatching *Request // the request from a lane's pending queue that is being dispatched

	shuttingDown    int // running calls of Shutdown; while there are any, peers open no endpoints
	closed          bool
	backoff         backoff.Backoff     // decides when blocking calls spin and when they sleep
	detachedCalls   atomic.Int32        // delegated calls in flight whose caller does not wait for the result
	lostErrors      map[*Endpoint]error // first errors of detached calls, reported by the next flush
	endpointWaiters []*call             // calls that wait until the last endpoint is gone

	workerState // last, because it is large
}

// setUp sets the pointer to the worker in each of its parts.
func (w *Worker) setUp() {
	for _, part := range []**Worker{
		&w.owner.w, &w.pool.w, &w.own.w, &w.selection.w, &w.wireups.w, &w.handshakes.w, &w.ends.w, &w.conns.w, &w.peers.w, &w.admission.w,
		&w.accounts.w, &w.rights.w, &w.wake.w, &w.tag.w, &w.am.w, &w.stream.w, &w.replies.w, &w.eager.w, &w.rndv.w, &w.rma.w,
	} {
		*part = w
	}
}

// iface is an open transport resource of a worker.
type iface struct {
	w     *Worker
	index uint8 // index of the resource in the context
	md    int
	uct   uct.Iface
	attr  *uct.IfaceAttr
	id    proto.TransportID

	published []byte // address of the interface, as the worker's address contains it
	withdrawn bool   // the worker's address omits the interface, because the interface has failed
}

// workerSeq numbers workers without a name.
var workerSeq platform.Local[atomic.Uint64]

// NewWorker makes a worker and opens the transports of the context for it.
func (c *Context) NewWorker(p WorkerParams) (*Worker, error) {
	if c.missing() {
		return nil, errMissing("Context.NewWorker", c == nil)
	}
	switch {
	case p.ThreadMode > maxThreadMode:
		return nil, fmt.Errorf("ucp: %v: %w", p.ThreadMode, ucs.ErrInvalidParam)
	case p.Token > TokenRequired:
		return nil, fmt.Errorf("ucp: %v: %w", p.Token, ucs.ErrInvalidParam)
	case p.AMAlignment < 0 || p.AMAlignment > MaxAMAlignment || p.AMAlignment&(p.AMAlignment-1) != 0:
		return nil, fmt.Errorf("ucp: AMAlignment %d: %w", p.AMAlignment, ucs.ErrInvalidParam)
	case p.Wait >= numWaitPolicies:
		return nil, fmt.Errorf("ucp: %v: %w", p.Wait, ucs.ErrInvalidParam)
	}
	if err := p.checkEvents(c.params.Features); err != nil {
		return nil, err
	}
	if err := p.checkBackground(); err != nil {
		return nil, err
	}
	if p.Events&WakeupEdge != 0 {
		edge := *p.Epoll
		edge.Edge = true
		p.Epoll = &edge
	}
	if err := c.addWorker(); err != nil {
		return nil, err
	}
	w := &Worker{
		ctx:       c,
		params:    p,
		name:      entityName(p.Name, "ucp-worker", workerSeq.Get()),
		uuid:      newWorkerUUID(),
		usage:     newUsage(&c.settings),
		endpoints: idtable.Table[Endpoint]{Mark: proto.EndpointIDMark},
	}
	w.setUp()
	w.peers.start()
	w.selection.configs = make(map[string]*epConfig)
	w.owner.multi = p.ThreadMode == ucs.ThreadModeMulti
	if w.owner.multi {
		w.owner.engine = engine.New((*sleepers)(w))
		w.owner.gate = gateShared
	}
	w.accounts.start()
	w.pieceSize = max(c.settings.RkeyPtrSeg.Int(datatype.Piece), 1)
	w.backoff = backoff.New(backoff.Policy(cmp.Or(p.Wait, WaitPolicy(c.settings.Wait))), platform.Now)
	for _, m := range c.mds {
		w.mds = append(w.mds, m.md)
	}
	for _, f := range families {
		if w.has(f) {
			w.families = append(w.families, f)
			f.start(w)
		}
	}
	if err := w.open(); err != nil {
		w.Close()
		return nil, err
	}
	w.owner.acquire()
	w.pool.nextSpare()
	w.accounts.Join()
	if w.owner.panicked != nil { // in the RequestInit hook: the caller gets no worker to close
		w.close()
	}
	w.background.start(w.round)
	w.owner.release()
	return w, nil
}

// newWorkerUUID returns a random id that is not zero. Peers distinguish and order workers by this
// id.
func newWorkerUUID() uint64 {
	for {
		u := uuid.Must(uuid.NewRandomFromReader(platform.Reader))
		var id uint64
		for i, b := range u { // both halves: some bits of a UUID are fixed
			id ^= uint64(b) << (8 * (i % 8))
		}
		if id != 0 {
			return id
		}
	}
}

// open opens the event set and the interfaces, and packs the address. A resource whose interface
// cannot be opened is skipped with a warning; open fails if none can be opened.
func (w *Worker) open() error {
	uw, err := uct.NewWorker()
	if err != nil {
		return err
	}
	uw.SetLogger(w.ctx.log)
	uw.SetAdaptive(w.ctx.settings.AdaptiveProgress)
	w.uctw = uw
	platform.Attach(w, uw.Events())
	if err := w.wake.open(); err != nil {
		return err
	}
	if err := w.openBackground(); err != nil {
		return err
	}
	var first error
	for i := range w.ctx.resources {
		if err := w.openIface(i); err != nil {
			name := w.ctx.resources[i].String()
			w.ctx.log.WarnOnce(name+" "+err.Error(), "interface not usable", zap.String("resource", name), zap.Error(err))
			w.unopened = append(w.unopened, skippedResource{name: name, reason: err.Error()})
			if first == nil {
				first = err
			}
		}
	}
	if len(w.ifaces) == 0 {
		return fmt.Errorf("ucp: no interface could be opened: %w", first)
	}
	if err := w.checkReach(first); err != nil {
		return err
	}
	for _, i := range w.ifaces {
		w.selection.locals = append(w.selection.locals, w.selection.local(i))
		w.rights.guardedBy(i)
	}
	w.logOpened()
	return w.own.packAddress()
}

// openIface opens one resource and sets its message handlers.
func (w *Worker) openIface(index int) error {
	r := &w.ctx.resources[index]
	ui, err := w.mds[r.md].OpenIface(w.uctw, uct.IfaceParams{
		Transport:   r.Transport,
		Device:      r.Device,
		OnError:     endpointError,
		Accept:      w.admission.accept(),
		PeerRelease: uct.PeerRelease(w.ctx.peerRelease()),

		Reclaim:      w.accounts.reclaimEndpoints,
		SenderExited: w.eager.senderExited,
	}, w.ctx.set)
	if err != nil {
		return err
	}
	if (w.params.Background || w.ctx.params.Features&FeatureWakeup != 0) && !canSleep(ui.Attr()) {
		ui.Close()
		return fmt.Errorf("cannot signal events: %w", ucs.ErrUnsupported)
	}
	i := &iface{
		w:     w,
		index: uint8(index),
		md:    r.md,
		uct:   ui,
		attr:  w.ctx.settings.limited(ui.Attr()),
		id:    proto.TransportIDOf(r.Transport),
	}
	w.ifaces = append(w.ifaces, i)
	return w.setHandlers(i)
}

// canSleep reports whether a worker may sleep while an interface with attributes a is open. An
// interface that receives messages from other workers must signal them by a descriptor. A loopback
// interface need not, because it keeps the worker awake while it has messages.
func canSleep(a *uct.IfaceAttr) bool {
	return a.Resource.Type == uct.DeviceSelf || a.Events&uct.EventFD != 0 || a.Flags&messageFlags == 0
}

// messageFlags are the flags of interfaces that receive active messages.
const messageFlags = uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy

// setHandlers sets the active message handlers of the worker's families on an interface.
func (w *Worker) setHandlers(i *iface) error {
	for _, f := range w.families {
		for _, h := range f.handlers(w) {
			if err := i.uct.SetAMHandler(uct.AMID(h.id), i.logged(h.id, h.fn)); err != nil {
				return fmt.Errorf("handler of %v for family %s: %w", h.id, f.about().name, err)
			}
		}
	}
	return nil
}

// Attr describes the worker.
func (w *Worker) Attr() WorkerAttr {
	return WorkerAttr{
		ThreadMode: w.params.ThreadMode, Name: w.name, UID: w.uuid, UserData: w.params.UserData,
		MaxAMHeader: w.am.maxHeader, Wakeup: w.wake.wakesFor(),
	}
}

// Progress advances communication without waiting and returns the number of events handled.
// It runs callbacks. Called from a callback, or on a closed worker, it does nothing. In
// ThreadModeMulti it does nothing while another goroutine owns the worker. Otherwise it
// also carries out operations that other goroutines have delegated, runs their callbacks, and
// counts them as one event if any of them has ended.
func (w *Worker) Progress() int {
	if !w.owner.outermost() {
		return w.occupied()
	}
	w.owner.gate = gateInside
	n := w.uctw.Round() // the body of round, to save a call
	if w.due.Load() {
		n += w.finishRound(n)
	}
	if w.owner.gate != gateInside {
		w.owner.releaseSlow()
		return n
	}
	w.owner.gate = 0
	return n
}

// occupied is Progress for a worker for which outermost returns false. In ThreadModeMulti it
// acquires the worker first. It does nothing while another goroutine owns the worker: that goroutine
// progresses the worker, or will soon release it. In other modes the worker is closed, inside a
// callback or misused. Then occupied handles no event; it panics on misuse, or if a caught panic must
// be raised.
//
//go:noinline
func (w *Worker) occupied() int {
	if !w.owner.multi {
		w.owner.checkGate()
		w.owner.raise()
		return 0
	}
	if !w.owner.tryAcquireSlow() {
		return 0
	}
	n := 0
	if w.owner.gate == gateInside|gateShared { // not closed, and not inside a callback
		if n = w.round(); n > 0 {
			w.owner.engine.News()
		}
		if w.owner.engine.AnnounceNews() && n == 0 {
			n = 1 // a delegated call has ended
		}
	}
	w.owner.releaseSlow()
	return n
}

// round runs one round of progress and returns the number of events handled.
func (w *Worker) round() int {
	n := w.uctw.Round() // [round]
	if w.due.Load() {
		n += w.finishRound(n)
	}
	return n
}

// finishRound does the work that is left at the end of a round, and returns the number of events
// handled. arrived is the number of events that the transports handled in the round.
func (w *Worker) finishRound(arrived int) (n int) {
	w.due.Store(false) // first: another worker may want something now
	if w.reclaimWanted.Swap(false) {
		w.accounts.Reclaim()
		w.accounts.reclaimForOthers()
	}
	if !w.copying.Empty() {
		w.copying.Pop().run()
		n++
	}
	if !w.dispatched.Empty() {
		n += w.finishDispatched()
	}
	if w.eager.untimed {
		n += w.eager.expireOrphans()
	}
	if w.conns.departed != nil {
		n += w.conns.endDeparted(arrived)
	}
	if w.stream.look {
		n += w.stream.checkStopped()
	}
	if !w.copying.Empty() || !w.dispatched.Empty() || w.eager.untimed || w.conns.departed != nil || w.stream.look {
		w.due.Store(true)
	}
	return n
}

// Stats returns the counters of the worker.
func (w *Worker) Stats() Stats {
	w.owner.acquireRead()
	defer w.owner.releaseRead()
	s := w.stats
	s.UnexpectedBytes, s.OwedBytes, s.Sources = w.accounts.Held(), w.accounts.ReplyBytes(), w.accounts.Holders()
	for _, f := range w.families {
		f.count(w, &s)
	}
	return s
}

// Close ends operations in flight with ucs.ErrCanceled, closes the endpoints and their
// remote keys and releases the worker. Callbacks run. Close is refused with ucs.ErrBusy
// inside a callback and, unless the worker is in ThreadModeMulti, while another goroutine
// uses the worker or waits on it (Run, Wait and similar calls). In ThreadModeMulti all
// waiting goroutines are woken with an error. A second Close does nothing.
func (w *Worker) Close() error {
	if w.missing() {
		return errMissing("Worker.Close", w == nil)
	}
	if w.owner.multi {
		return w.closeShared()
	}
	if w.owner.isClosed() {
		return nil
	}
	if err := w.wake.enterClose(); err != nil || w.closed {
		return err
	}
	defer w.wake.endWait()
	err := w.close()
	w.owner.release()
	return err
}

// closeShared is Close in ThreadModeMulti. Outside callbacks it also waits for the background
// goroutine to end.
func (w *Worker) closeShared() error {
	err := w.owner.acquireChecked()
	if err != nil {
		return err
	}
	switch {
	case w.closed:
	case w.owner.gate.depth() != 0:
		err = fmt.Errorf("ucp: closing worker %s inside a callback: %w", w.name, ucs.ErrBusy)
	default:
		err = w.close()
	}
	inside := w.owner.gate.depth() != 0
	w.owner.release()
	if !inside {
		w.background.wait()
	}
	return err
}

// close is Close without checks. The caller owns the worker.
func (w *Worker) close() error {
	w.owner.gate |= gateClosed
	w.closed = true // [close]
	w.usage.print(w.ctx.log)
	w.accounts.Leave()
	for _, f := range w.families {
		f.halt(w)
	}
	w.endpoints.Each(func(ep *Endpoint) { ep.w.ends.destroy(ep, ucs.ErrCanceled) })
	w.finishDispatched()
	var first error
	for _, f := range w.families {
		if err := f.stop(w); err != nil && first == nil {
			first = err
		}
	}
	for _, i := range w.ifaces {
		if err := i.uct.Close(); err != nil && first == nil {
			first = err
		}
	}
	w.accounts.Close()
	if w.owner.multi {
		w.owner.engine.Close(wakeset.ErrClosed)
	}
	w.wake.Close(w.params.Epoll == nil)
	w.background.close()
	if w.uctw != nil {
		if err := w.uctw.Close(); err != nil && first == nil {
			first = err
		}
	}
	if fn := w.ctx.params.RequestCleanup; fn != nil {
		for _, r := range w.pool.madeRequests {
			r.callHook(fn)
		}
	}
	w.pool.madeRequests, w.pool.freeRequests, w.pool.spare = nil, list.Stack[Request]{}, nil
	clear(w.pool.resting[:])
	w.pool.restFirst, w.pool.restEnd = 0, 0
	w.ctx.dropWorker()
	return first
}

// checkReach fails if no peer could connect to the worker. Its error wraps first, the error of the
// first resource that could not be opened. Lanes that are connected pairwise, those of rc_verbs,
// are set up over an auxiliary transport that needs no connection and may serve nothing else. At
// the limit of locked memory either of the two transports may open without the other. If no other
// transport failed to open, the settings ask for this selection: checkReach accepts it, because
// peers may still reach the worker by socket address.
func (w *Worker) checkReach(first error) error {
	pairwise, auxiliary := "", ""
	for _, i := range w.ifaces {
		switch {
		case i.attr.Resource.Type == uct.DeviceSelf || i.attr.Flags&uct.IfaceAMBcopy == 0:
		case w.ctx.resources[i.index].auxiliary:
			auxiliary = i.attr.Resource.Transport
		case i.attr.Flags&uct.IfaceConnectToIface != 0:
			return nil
		default:
			pairwise = i.attr.Resource.Transport
		}
	}
	has := pairwise + auxiliary // the transport of one kind, unless both kinds are open
	lacks := slices.ContainsFunc(w.unopened, func(s skippedResource) bool { return !strings.HasPrefix(s.name, has+"/") })
	if has == "" || pairwise != "" && auxiliary != "" || !lacks {
		return nil
	}
	return fmt.Errorf("ucp: no peer could connect to the worker: %s opened, but the transports that it needs or serves did not: %w", has, first)
}
