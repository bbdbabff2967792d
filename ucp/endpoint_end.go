package ucp

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// How an endpoint ends. Package life makes the decisions: it defines the stages of an endpoint,
// what is known of the peer's endpoint, and the actions (duties) that each event requires. This
// file reports events to package life and carries out the duties. Other files call report. Only
// report changes Endpoint.life. Below, an end is an endpoint as one of the two sides of the
// connection: this end and the peer's end.

// endpointEnds ends the endpoints of a worker, as package life decides.
type endpointEnds struct {
	w        *Worker
	retained []*Endpoint // closed endpoints that are kept for their peers (retain), oldest first
}

// report applies an event to Endpoint.life and carries out the duties that follow. reason is the
// error of a loss or of a cancellation, nil for other events.
func (ep *Endpoint) report(ev life.Event, reason error) {
	was := ep.life.Stage
	next, owed := ep.life.Next(ev, ep.busy())
	ep.life = next
	if owed&life.Fail != 0 || ev == life.Force {
		ep.w.handshakes.abandon(ep)
	}
	if owed&life.Refuse != 0 {
		ep.w.ends.refuseOperations(ep)
	}
	if owed&life.Fail != 0 {
		ep.w.ends.endFailed(ep, reason)
		if ev == life.Removed && ep.life.Stage == life.Failed {
			ep.w.ends.closeLanes(ep, false) // no lane reports that the peer has closed its side
		}
	}
	switch {
	case owed&life.Cancel == 0:
	case next.Stage == life.Gone:
		ep.w.ends.purge(ep, cmp.Or(reason, error(ucs.ErrCanceled)))
	default:
		ep.w.ends.cancelUnanswered(ep)
	}
	if owed&life.Flush != 0 {
		ep.w.ends.flushLanes(ep)
	}
	if owed&life.SendReleased != 0 {
		ep.w.ends.sendClose(ep, proto.EpReleased)
	}
	if owed&life.SendRemoved != 0 {
		ep.w.ends.sendClose(ep, proto.EpRemoved)
	}
	if owed&life.TrySendRemoved != 0 {
		ep.w.ends.sendCloseNow(ep, proto.EpRemoved)
	}
	if owed&life.Await != 0 {
		ep.w.ends.awaitPeer(ep)
	}
	if owed&life.Disconnect != 0 {
		ep.w.ends.disconnect(ep)
	}
	if owed&life.CallHandler != 0 && ep.life.Stage == life.Failed && ep.errMode == ErrModePeer && ep.onError != nil {
		ep.callError()
	}
	if owed&life.Release != 0 {
		ep.w.ends.release(ep, owed&life.CloseDone != 0)
	} else if owed&life.CloseDone != 0 {
		ep.w.ends.endClose(ep, nil)
	}
	if owed&life.Retain != 0 {
		ep.w.retain(ep)
	}
	if stage := ep.life.Stage; stage != was && (stage == life.Draining || stage == life.Serving) || owed == life.Cancel {
		ep.w.ends.reportIfQuiet(ep)
	}
}

// busy reports whether something still needs the endpoint: an operation, a message of the library
// itself, a message of the peer that the application holds and may reply to, or a posted receive of
// the peer's stream.
func (ep *Endpoint) busy() bool {
	return ep.inFlight > 0 || ep.held > 0 || ep.stream != nil && !ep.stream.recvs.Empty()
}

// reportIfQuiet reports life.OperationsDone for an endpoint that the application does not hold open, if the
// endpoint is not busy.
func (ee *endpointEnds) reportIfQuiet(ep *Endpoint) {
	if ep.life.Stage != life.Open && ep.state&epPurging == 0 && !ep.busy() {
		ep.report(life.OperationsDone, nil)
	}
}

// bind adds the request to the endpoint's requests in flight, which a close waits for.
func (r *Request) bind(ep *Endpoint) {
	r.ep = ep
	ep.inFlight++
}

// unbind undoes bind when the request ends.
func (ep *Endpoint) unbind() {
	ep.inFlight--
	if ep.inFlight == 0 && ep.life.Stage != life.Open {
		ep.w.ends.reportIfQuiet(ep)
	}
}

// refuseOperations makes the endpoint refuse new operations from now on.
func (ee *endpointEnds) refuseOperations(ep *Endpoint) {
	ep.shortBelow, ep.shortAMBelow = 0, 0
	for _, f := range ep.w.families {
		f.closing(ep)
	}
}

// fail ends the endpoint because its peer is lost. Every operation ends with the error, then the
// error handler is called.
func (ep *Endpoint) fail(err error) { ep.report(life.Lost, err) }

// destroy releases the endpoint. Operations in flight end with err.
func (ee *endpointEnds) destroy(ep *Endpoint, err error) { ep.report(life.Force, err) }

// endFailed ends all operations with the endpoint's error because the peer is lost.
func (ee *endpointEnds) endFailed(ep *Endpoint, err error) {
	if ep.life.Closed && ep.inFlight == 0 { // the application has closed the endpoint, and no operation is lost
		ee.cancelLanes(ep)
		return
	}
	ep.err = ee.endError(ep, err)
	ep.shortBelow, ep.shortAMBelow = 0, 0
	ee.markEnded(ep)
	if ep.state&epNotice == 0 {
		ep.w.stats.Failures++
	}
	ep.w.ctx.log.Debug("endpoint failed", zap.Error(ep.err))
	ee.purge(ep, ep.err)
	ee.cancelLanes(ep)
}

// purge ends all operations with err. It calls the callbacks of the operations.
func (ee *endpointEnds) purge(ep *Endpoint, err error) {
	was := ep.state & epPurging
	ep.state |= epPurging
	ee.purgeLanes(ep, err)
	abortThoseOf(ep, &ep.w.copying, err)
	abortAll(&ep.waiting, err)
	abortAll(&ep.outstanding, err)
	for _, f := range ep.w.families {
		f.purge(ep, err)
	}
	ep.w.endMoves(ep, err) // includes operations that were moved to another lane during the purge
	ep.state = ep.state&^epPurging | was
}

// cancelUnanswered cancels the operations that wait for the peer: for a match, a reply, or the
// peer's id. Operations that need only the transport continue, and so do receives whose data is
// being fetched. A request that waits in a lane's queue is marked, and ends when the lane
// dispatches it.
func (ee *endpointEnds) cancelUnanswered(ep *Endpoint) {
	was := ep.state & epPurging
	ep.state |= epPurging
	under := ep.inFlight
	abortAll(&ep.waiting, ucs.ErrCanceled)
	for n := ep.outstanding.Front(); n != nil; {
		r, next := n.Value, n.Next()
		switch {
		case r.state&stateRecv != 0:
		case r.pend.Queued():
			if r.state&stateGivenUp == 0 {
				r.state |= stateGivenUp
				ep.ensureExtra().canceledCount++
			}
		default:
			n.Remove()
			ep.w.rma.forget(r)
			r.abort(ucs.ErrCanceled)
			next = ep.outstanding.Front() // callbacks may have changed the list
		}
		n = next
	}
	if f := ep.rma; f != nil {
		abortAll(&f.flushing, ucs.ErrCanceled)
	}
	if n := under - ep.inFlight; n > 0 {
		ep.ensureExtra().canceledCount += n
	}
	ep.state = ep.state&^epPurging | was
}

// purgeLanes ends the operations that wait in the queues of the lanes with err.
func (ee *endpointEnds) purgeLanes(ep *Endpoint, err error) {
	abort := func(p *uct.Pending) {
		if h, ok := p.Owner.(*hooks); ok {
			(*Request)(h).abort(err)
		}
	}
	for i := 0; i < len(ep.lanes); i++ { // a callback may close the endpoint
		ep.lanes[i].uct.PendingPurge(abort)
	}
	ep.w.handshakes.auxLane(ep, connect.AuxLane).PendingPurge(abort)
}

// cancelLanes cancels the operations that the transports have accepted. A lane to a peer that is
// gone may never notice the loss, and then would never end its operations (ucp_ep_discard_lanes in
// src/ucp/core/ucp_ep.c).
func (ee *endpointEnds) cancelLanes(ep *Endpoint) {
	for i := 0; i < len(ep.lanes); i++ { // a callback may close the endpoint
		_ = ep.lanes[i].uct.Flush(uct.FlushCancel, nil) // a failed lane ends its operations itself
	}
	_ = ep.w.handshakes.auxLane(ep, connect.AuxLane).Flush(uct.FlushCancel, nil)
}

// release releases everything that the endpoint holds, and ends a close in progress: with success
// if closed is set, otherwise with the endpoint's error or ucs.ErrCanceled.
func (ee *endpointEnds) release(ep *Endpoint, closed bool) {
	w := ep.w
	ep.shortBelow, ep.shortAMBelow = 0, 0
	drain := closed && ep.errMode == ErrModeNone && ep.conn() == nil
	if ep.err == nil {
		ee.purge(ep, ucs.ErrCanceled) // operations that were started during the close, and flushes
	}
	ee.dropTimer(ep)
	ep.w.conns.disconnectManager(ep)
	ee.closeLanes(ep, drain)
	w.endpoints.Remove(uint64(ep.localID))
	ee.markEnded(ep)
	ep.takeError()
	w.dropRetained(ep)
	for _, f := range w.families {
		f.closed(ep)
	}
	var err error
	switch {
	case closed:
	case ep.err != nil:
		err = ep.err
	default:
		err = ucs.ErrCanceled
	}
	ee.endClose(ep, err)
	if w.endpoints.Len() == 0 {
		for _, c := range w.endpointWaiters {
			w.owner.engine.End(&c.Waiter, nil)
		}
		w.endpointWaiters = nil
	}
}

// endClose ends the close in progress, if there is one. err is its result.
func (ee *endpointEnds) endClose(ep *Endpoint, err error) {
	n := ep.extra
	if n == nil || n.closing == nil {
		return
	}
	r := n.closing
	n.closing = nil
	if err == nil && n.canceledCount > 0 {
		err = ucs.ErrCanceled
	}
	r.finish(err)
}

// canceledOperations returns the number of operations of the endpoint that a close has canceled instead of
// waiting for them.
func (ee *endpointEnds) canceledOperations(ep *Endpoint) int32 {
	if ep.extra == nil {
		return 0
	}
	return ep.extra.canceledCount
}

// giveUp cancels the operations that a close waits for. The close itself continues.
func (ee *endpointEnds) giveUp(ep *Endpoint) {
	if ep.life.Stage == life.Draining {
		ep.report(life.GiveUp, nil)
	}
}

// markEnded sets Endpoint.ended, so that calls of other goroutines on the endpoint are not
// delegated and return its error.
func (ee *endpointEnds) markEnded(ep *Endpoint) {
	if ep.w.owner.multi {
		atomic.StoreUint32(&ep.ended, 1)
	}
}

// flushLanes starts the flush that is part of a close.
func (ee *endpointEnds) flushLanes(ep *Endpoint) {
	r := ep.control(lastFlush{})
	r.uncount()
	r.step = 0
	ep.flushBegun()
	ep.submit(r)
}

// uncount excludes the request from those that a close of the endpoint waits for.
func (r *Request) uncount() {
	r.ep.inFlight--
	r.state |= stateUncounted
}

// lastFlush is the flush that is part of a close. It comes after all operations.
type lastFlush struct{ flushing }

func (lastFlush) about() protocolInfo { return protocolInfo{name: "close", kind: kindFlush} }

// release reports the end of the flush. If only messages were ever sent on the endpoint, a
// connection reset during the flush loses nothing, because the messages had been sent before.
func (p lastFlush) release(r *Request) {
	p.flushing.release(r)
	ep, err := r.ep, r.err
	if err != nil && ep.rma == nil && errors.Is(err, ucs.ErrConnectionReset) && ep.life.Stage == life.Flushing {
		err = nil
	}
	if err != nil {
		ep.report(life.Lost, err)
		return
	}
	ep.report(life.Flushed, nil)
}

// sendClose sends the peer the message that this end was released or removed, and reports
// life.MessageSent when the message was sent.
func (ee *endpointEnds) sendClose(ep *Endpoint, what proto.EpCloseKind) {
	r := ep.control(epClose{})
	r.uncount()
	r.step = uint8(what)
	r.run()
}

// sendCloseNow sends the same message as sendClose, but reports nothing, and drops the message
// unless the transport accepts it at once.
func (ee *endpointEnds) sendCloseNow(ep *Endpoint, what proto.EpCloseKind) {
	if ep.remoteID == 0 || ep.life.NoCloseMessages || len(ep.lanes) == 0 || ep.err != nil {
		return
	}
	r := ep.control(epCloseUnreported{})
	r.uncount()
	r.step = uint8(what)
	if err := r.proto.progress(r); err != nil {
		r.finish(err)
	}
}

// epClose is the protocol of the message that this end was released or removed.
type epClose struct{ basics }

func (epClose) about() protocolInfo { return protocolInfo{name: "endpoint close"} }

func (epClose) progress(r *Request) error { return r.sendControl(proto.IDEpClose, 0) }

func (epClose) pack(r *Request, dst []byte) int {
	return proto.EpClose{Kind: proto.EpCloseKind(r.step), EpID: r.ep.remoteID, From: r.ep.localID}.Put(dst)
}

func (epClose) release(r *Request) {
	if r.err != nil {
		r.ep.report(life.Lost, r.err)
		return
	}
	r.ep.report(life.MessageSent, nil)
}

// epCloseUnreported is epClose for the method sendCloseNow: its completion is not reported.
type epCloseUnreported struct{ epClose }

func (epCloseUnreported) release(*Request) {}

// onEpClose handles the message that the peer's end was released or removed. Only peers that use
// this library send it.
func (w *Worker) onEpClose(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseEpClose(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil || ep.remoteID != h.From || ep.life.NoCloseMessages || ep.peer == nil {
		w.stats.Dropped++
		return nil
	}
	if w.admission.spoofed(src, ep) {
		return nil
	}
	if h.Kind == proto.EpReleased {
		ep.report(life.Released, nil)
	} else {
		ep.report(life.Removed, errEndGone)
	}
	return nil
}

// disconnect ends the connection of a connection manager: gracefully, or at once if the endpoint
// has failed or the peer has disconnected. If the connection has ended or was never made, the peer
// will not answer, so life.Left is reported within the call.
func (ee *endpointEnds) disconnect(ep *Endpoint) {
	c := ep.conn()
	switch {
	case c == nil:
	case ep.life.Stage == life.Failed, ep.life.Stage == life.CloseWait:
		ep.w.conns.disconnectManager(ep)
	case c.uct == nil || ep.handshake.Stage != connect.Open:
		ep.report(life.Left, nil)
	default:
		ee.sendCloseNow(ep, proto.EpReleased)
		ep.w.uctw.Push() // sends the message before the connection ends
		if c.uct.Disconnect() != nil {
			ep.report(life.Left, nil)
		}
	}
}

// closeGrace is how long an end that has flushed waits for its peer to disconnect first, if this
// end is a server's or the peer is C UCX. A C UCX peer that closes right after the last message
// treats a disconnect that arrives before its own close as a failure
// (ucp_ep_cm_remote_disconnect_progress in src/ucp/wireup/wireup_cm.c). An application whose peer
// has disconnected has the same time to close its end before the error handler is called.
const closeGrace = 50 * time.Millisecond

// awaitPeer starts a wait of closeGrace for the peer to disconnect first, or for the application to
// close. It reports life.Waited when the time has passed.
func (ee *endpointEnds) awaitPeer(ep *Endpoint) {
	waited := func() {
		ee.dropTimer(ep)
		ep.report(life.Waited, nil)
	}
	timer, err := ep.w.uctw.Timers().After(closeGrace, waited)
	if err != nil {
		ep.report(life.Waited, nil)
		return
	}
	ep.ensureExtra().timer = timer
}

// dropTimer stops the timer of awaitPeer.
func (ee *endpointEnds) dropTimer(ep *Endpoint) {
	if n := ep.extra; n != nil && n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
}

// maxRetained is how many closed endpoints a worker keeps for peers that do not report when they no
// longer need them. The oldest is released first.
const maxRetained = 128

// retain keeps an endpoint that the application has closed, because its peer may still need it.
func (w *Worker) retain(ep *Endpoint) {
	w.ends.retained = append(w.ends.retained, ep)
	if len(w.ends.retained) > maxRetained {
		w.ends.retained[0].report(life.Evict, nil)
	}
}

// dropRetained removes an endpoint that is being released from the retained ones.
func (w *Worker) dropRetained(ep *Endpoint) {
	for k, o := range w.ends.retained {
		if o == ep {
			w.ends.retained = append(w.ends.retained[:k], w.ends.retained[k+1:]...)
			return
		}
	}
}

// Errors of endpoints. They report that an endpoint has failed, or that its lanes could not carry
// out an operation: "ucp: endpoint NAME: what happened". All of them are made here, so that one
// event has the same text for the error handler, for Endpoint.Err, for the operations that the
// event ends and for those that are started afterwards.

// namedError is an error of an endpoint. It matches its cause (errors.Is).
type namedError struct {
	endpoint string
	cause    error
}

// Error returns the text of the cause after the names of the package and the endpoint. The package
// is named once.
func (e *namedError) Error() string {
	return "ucp: endpoint " + e.endpoint + ": " + strings.TrimPrefix(e.cause.Error(), "ucp: ")
}

// Unwrap returns the cause.
func (e *namedError) Unwrap() error { return e.cause }

// Causes of an endpoint's failure, other than errors of lanes.
var (
	errEndGone      = statuserr.Errorf(ucs.ErrConnectionReset, "the peer's endpoint does not exist any more")
	errDisconnected = statuserr.Errorf(ucs.ErrConnectionReset, "the peer has closed the connection")
)

// endError returns the error of an endpoint whose peer is lost. The first cause decides the error,
// even if messages that arrived before the loss are received later. Such a message may say that the
// peer has released its endpoint. In that case the peer has closed the connection in an orderly
// way, and the error is ucs.ErrPeerClosed.
func (ee *endpointEnds) endError(ep *Endpoint, cause error) error {
	if ep.err != nil {
		return ep.err
	}
	if n := ep.extra; n != nil && n.ending != nil {
		cause = n.ending
	}
	if ep.life.Peer == life.PeerReleased && errors.Is(cause, ucs.ErrConnectionReset) {
		cause = ucs.ErrPeerClosed
	}
	return ee.withEndpointName(ep, cause)
}

// withEndpointName adds the name of the endpoint to an error that has none.
func (ee *endpointEnds) withEndpointName(ep *Endpoint, cause error) error {
	if e, ok := cause.(*namedError); ok {
		return e
	}
	return &namedError{ep.describe(), cause}
}

// laneError returns the error for the application of an operation that a lane has refused or ended
// with err. A failing lane ends its operations before it reports its failure.
func (ee *endpointEnds) laneError(r *Request, err error) error {
	ep := r.ep
	switch {
	case ep == nil:
		return err
	case err == ucs.ErrCanceled:
		if ep.err != nil { // the operation was canceled because the endpoint has failed
			return ep.err
		}
		return err
	case ofOperation(err):
		return ep.w.ends.withEndpointName(ep, err)
	}
	return ep.w.ends.endError(ep, err)
}

// ofOperation reports whether an error of a lane concerns only one operation. Other errors mean
// that the lane has failed.
func ofOperation(err error) bool {
	switch ucs.StatusOf(err) {
	case ucs.ErrCanceled, ucs.ErrInvalidParam, ucs.ErrInvalidAddr, ucs.ErrUnsupported, ucs.ErrOutOfRange,
		ucs.ErrMessageTruncated, ucs.ErrBufferTooSmall, ucs.ErrNoMemory, ucs.ErrNotImplemented, ucs.ErrBusy:
		return true
	}
	return false
}

// Failure of a lane, and its effect on the endpoint.

// endpointError is called by a transport when a lane has failed. userData is the endpoint.
func endpointError(ue uct.Endpoint, userData any, err error) {
	ep := userData.(*Endpoint)
	switch opened := ep.handshake.Role != connect.Peer && ep.handshake.Stage == connect.Open; {
	case ep.w.handshakes.auxLost(ep, ue), ep.w.handshakes.retryOtherDevices(ep, ue, err):
	case (opened || ep.life.Closing()) && errors.Is(err, ucs.ErrConnectionReset):
		ep.w.conns.reportDelayed(ep, life.Lost, err)
	default:
		ep.w.ends.laneFailed(ep, err)
	}
}

// laneFailed ends the endpoint because a lane has failed. If the peer has opened the endpoint, the
// peer is notified by the end of the connection on which its request came: the peer's end may have
// no other lane to this end, and would wait for replies. If this side has closed the lane, the
// connection is dropped as well. If the peer has closed the lane, the peer may have sent messages
// on the connection before. Then only the sending direction of the connection is ended, so that
// these messages are still received.
//
// If the connection carries another endpoint, the peer is not notified, because that endpoint would
// fail with the connection. Transports pair the two directions of a connection in the order in
// which each side makes its endpoints. Therefore the connection that an endpoint was requested on
// soon becomes the lane of another endpoint: requests overtake each other, and a reply to a
// keepalive message that an endpoint does not exist removes an endpoint on one side only. If the
// peer is not notified, it detects the failure by its own keepalive, as it always does in C UCX
// (ucp_ep_set_failed in src/ucp/core/ucp_ep.c).
func (ee *endpointEnds) laneFailed(ep *Endpoint, err error) {
	opener := ep.w.accounts.openedBy(ep)
	ep.fail(err)
	switch {
	case opener == nil || opener.uct == nil || opener.Opened() > 0 || opener.uct.Shared():
	case errors.Is(err, ucs.ErrConnectionReset) && !errors.Is(err, ucs.ErrNoResource) && !errors.Is(err, ucs.ErrExceedsLimit):
		opener.uct.End()
	default:
		opener.uct.Drop(fmt.Errorf("ucp: the connection for replies was closed: %w", err))
	}
}
