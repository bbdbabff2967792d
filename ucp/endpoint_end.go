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
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// How an endpoint ends. Package life makes the decisions: it defines the stages, what is known of
// the peer's end, and the duties that each event brings. This file reports events to package life
// and carries out the duties. Other files call report. Only report changes Endpoint.life.

// endpointEnds ends the endpoints of a worker, as package life decides.
type endpointEnds struct {
	w        *Worker
	retained []*Endpoint // kept for peers that cannot say when they no longer need the end, oldest first
}

// report applies an event to the life of the endpoint and carries out the duties that follow.
// reason is the cause of a loss or of a cancellation, nil for other events.
func (ep *Endpoint) report(ev life.Event, reason error) {
	was := ep.life.Stage
	next, owed := ep.life.Next(ev, ep.busy())
	ep.life = next
	if owed&life.Refuse != 0 {
		ep.w.ends.refuseOperations(ep)
	}
	if owed&life.Fail != 0 {
		ep.w.ends.endFailed(ep, reason)
		if ev == life.Removed && ep.life.Stage == life.Failed {
			ep.w.ends.closeLanes(ep, false) // no lane reports that the peer has closed its end of the lane
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
	if owed&life.TellReleased != 0 {
		ep.w.ends.tell(ep, proto.EpReleased)
	}
	if owed&life.TellRemoved != 0 {
		ep.w.ends.tell(ep, proto.EpRemoved)
	}
	if owed&life.SayRemoved != 0 {
		ep.w.ends.say(ep, proto.EpRemoved)
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
	if owed&life.Shelve != 0 {
		ep.w.retain(ep)
	}
	if stage := ep.life.Stage; stage != was && (stage == life.Draining || stage == life.Serving) || owed == life.Cancel {
		ep.w.ends.lookQuiet(ep)
	}
}

// busy reports whether something still needs this end: an operation, a message of the library
// itself, a message of the peer that the application holds and may reply to, or a posted receive of
// the peer's stream.
func (ep *Endpoint) busy() bool {
	return ep.inFlight > 0 || ep.held > 0 || ep.stream != nil && ep.stream.recvs.head != nil
}

// lookQuiet reports life.Quiet for an end that is being closed, if the end is not busy.
func (ee *endpointEnds) lookQuiet(ep *Endpoint) {
	if ep.life.Stage != life.Open && ep.state&epPurging == 0 && !ep.busy() {
		ep.report(life.Quiet, nil)
	}
}

// bind makes the request one of the endpoint's requests in flight. The endpoint stays until the
// request ends.
func (r *Request) bind(ep *Endpoint) {
	r.ep = ep
	ep.inFlight++
}

// unbind undoes bind when the request ends.
func (ep *Endpoint) unbind() {
	ep.inFlight--
	if ep.inFlight == 0 && ep.life.Stage != life.Open {
		ep.w.ends.lookQuiet(ep)
	}
}

// refuseOperations makes the endpoint refuse new operations from now on.
func (ee *endpointEnds) refuseOperations(ep *Endpoint) {
	ep.short, ep.shortAM = -1, -1
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
	ep.short, ep.shortAM = -1, -1
	ee.markEnded(ep)
	ep.w.stats.Failures++
	ep.w.ctx.log.Debug("endpoint failed", zap.Error(ep.err))
	ee.purge(ep, ep.err)
	ee.cancelLanes(ep)
}

// purge ends all operations with err. It calls the callbacks of the operations.
func (ee *endpointEnds) purge(ep *Endpoint, err error) {
	was := ep.state & epPurging
	ep.state |= epPurging
	ee.purgeLanes(ep, err)
	ep.w.copying.endOf(ep, err)
	ep.waiting.end(err)
	ep.outstanding.end(err)
	for _, f := range ep.w.families {
		f.purge(ep, err)
	}
	ep.w.endMoves(ep, err) // includes operations that moved to another lane when others ended
	ep.state = ep.state&^epPurging | was
}

// cancelUnanswered cancels the operations that wait for the peer: for a match, a reply, or the
// peer's id. Operations that need only the transport continue, and so do receives whose data is
// being fetched. A request that waits in a lane's queue ends there when the lane comes to it.
func (ee *endpointEnds) cancelUnanswered(ep *Endpoint) {
	was := ep.state & epPurging
	ep.state |= epPurging
	under := ep.inFlight
	ep.waiting.end(ucs.ErrCanceled)
	for r := ep.outstanding.head; r != nil; {
		next := r.next
		switch {
		case r.state&stateRecv != 0:
		case r.pend.Queued():
			if r.state&stateGivenUp == 0 {
				r.state |= stateGivenUp
				ep.ensureExtra().gaveUp++
			}
		default:
			r.list.remove(r)
			r.abort(ucs.ErrCanceled)
			next = ep.outstanding.head // callbacks may have changed the list
		}
		r = next
	}
	if f := ep.rma; f != nil {
		f.flushing.end(ucs.ErrCanceled)
	}
	if n := under - ep.inFlight; n > 0 {
		ep.ensureExtra().gaveUp += n
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
	ep.w.selection.auxLane(ep, auxNumber).PendingPurge(abort)
}

// cancelLanes cancels the operations that the transports have accepted. A lane to a peer that is
// gone may never notice the loss, and then would never end its operations (ucp_ep_discard_lanes in
// src/ucp/core/ucp_ep.c).
func (ee *endpointEnds) cancelLanes(ep *Endpoint) {
	for i := 0; i < len(ep.lanes); i++ { // a callback may close the endpoint
		_ = ep.lanes[i].uct.Flush(uct.FlushCancel, nil) // a failed lane ends its operations itself
	}
	_ = ep.w.selection.auxLane(ep, auxNumber).Flush(uct.FlushCancel, nil)
}

// release releases everything that the endpoint holds, and ends a close in progress.
func (ee *endpointEnds) release(ep *Endpoint, closed bool) {
	w := ep.w
	ep.short, ep.shortAM = -1, -1
	linger := closed && ep.errMode == ErrModeNone && ep.conn() == nil
	if ep.err == nil {
		ee.purge(ep, ucs.ErrCanceled) // operations that were started during the close, and flushes
	}
	ee.dropTimer(ep)
	ep.w.conns.disconnectManager(ep)
	ee.closeLanes(ep, linger)
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
	if err == nil && n.gaveUp > 0 {
		err = ucs.ErrCanceled
	}
	r.finish(err)
}

// leftBehind returns the number of operations that a close has canceled instead of waiting for
// them.
func (ee *endpointEnds) leftBehind(ep *Endpoint) int32 {
	if ep.extra == nil {
		return 0
	}
	return ep.extra.gaveUp
}

// giveUp cancels the operations that a close waits for. The close itself continues.
func (ee *endpointEnds) giveUp(ep *Endpoint) {
	if ep.life.Stage == life.Draining {
		ep.report(life.GiveUp, nil)
	}
}

// markEnded makes calls of other goroutines on the endpoint return the endpoint's error.
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

// uncount excludes the request from those that the end of the endpoint waits for.
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

// tell sends the peer a message about this end, and reports life.Told when the message was sent.
func (ee *endpointEnds) tell(ep *Endpoint, what proto.EpCloseKind) {
	r := ep.control(epClose{})
	r.uncount()
	r.step = uint8(what)
	r.run()
}

// say is tell without the report: the message is dropped unless the transport takes it at once.
func (ee *endpointEnds) say(ep *Endpoint, what proto.EpCloseKind) {
	if ep.remoteID == 0 || ep.life.Deaf || len(ep.lanes) == 0 || ep.err != nil {
		return
	}
	r := ep.control(epCloseUnheard{})
	r.uncount()
	r.step = uint8(what)
	if err := r.proto.progress(r); err != nil {
		r.finish(err)
	}
}

// epClose carries a message that tells the peer about this end.
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
	r.ep.report(life.Told, nil)
}

// epCloseUnheard is an epClose whose completion is not reported.
type epCloseUnheard struct{ epClose }

func (epCloseUnheard) release(*Request) {}

// onEpClose handles a peer's message about its end. Only peers that use this library send it.
func (w *Worker) onEpClose(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	h, err := proto.ParseEpClose(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ep := w.endpoints.Get(uint64(h.EpID))
	if ep == nil || ep.remoteID != h.From || ep.life.Deaf || ep.peer == nil {
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
// has failed or the peer has disconnected. A connection that has ended, or was never made, brings
// no reply, so life.Left is reported within the call.
func (ee *endpointEnds) disconnect(ep *Endpoint) {
	c := ep.conn()
	switch {
	case c == nil:
	case ep.life.Stage == life.Failed, ep.life.Stage == life.CloseWait:
		ep.w.conns.disconnectManager(ep)
	case c.uct == nil || c.stage != connOpen:
		ep.report(life.Left, nil)
	default:
		ee.say(ep, proto.EpReleased)
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

// maxRetained is how many closed ends a worker keeps for peers that cannot say when they no longer
// need them. The oldest is released first.
const maxRetained = 128

// retain keeps an end that the application has closed, because its peer may still need it.
func (w *Worker) retain(ep *Endpoint) {
	w.ends.retained = append(w.ends.retained, ep)
	if len(w.ends.retained) > maxRetained {
		w.ends.retained[0].report(life.Evict, nil)
	}
}

// dropRetained removes an end that is being released from the retained ends.
func (w *Worker) dropRetained(ep *Endpoint) {
	for k, o := range w.ends.retained {
		if o == ep {
			w.ends.retained = append(w.ends.retained[:k], w.ends.retained[k+1:]...)
			return
		}
	}
}

// Errors of endpoints. They tell the application of the end of an endpoint, and of operations that
// its lanes could not carry out: "ucp: endpoint NAME: what happened". All of them are made here, so
// that one event has the same text for the error handler, for Endpoint.Err, for the operations that
// the event ends and for those that are started afterwards.

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

// Causes of the end of an endpoint, other than errors of lanes.
var (
	errEndGone      = statuserr.Errorf(ucs.ErrConnectionReset, "the peer's end is gone")
	errDisconnected = statuserr.Errorf(ucs.ErrConnectionReset, "the peer has closed the connection")
)

// endError returns the error of an endpoint whose peer is lost. The first cause decides the error,
// also if messages that arrived before the loss are received later. Such a message may say that the
// peer has released its end. Then the end of the connection, although noticed first, was an orderly
// one, and the error is ucs.ErrPeerClosed.
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
	return ee.nameIn(ep, cause)
}

// nameIn adds the name of the endpoint to an error that has none.
func (ee *endpointEnds) nameIn(ep *Endpoint, cause error) error {
	if e, ok := cause.(*namedError); ok {
		return e
	}
	return &namedError{ep.describe(), cause}
}

// laneError returns the error of an operation that a lane has refused or ended. A failing lane ends
// its operations before it reports its failure.
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
		return ep.w.ends.nameIn(ep, err)
	}
	return ep.w.ends.endError(ep, err)
}

// ofOperation reports whether an error of a lane concerns one operation only, rather than the end
// of the lane.
func ofOperation(err error) bool {
	switch ucs.StatusOf(err) {
	case ucs.ErrCanceled, ucs.ErrInvalidParam, ucs.ErrInvalidAddr, ucs.ErrUnsupported, ucs.ErrOutOfRange,
		ucs.ErrMessageTruncated, ucs.ErrBufferTooSmall, ucs.ErrNoMemory, ucs.ErrNotImplemented, ucs.ErrBusy:
		return true
	}
	return false
}

// Failure of a lane, and its effect on the endpoint.

// endpointError handles a transport's report that a lane has failed.
func endpointError(ue uct.Endpoint, userData any, err error) {
	ep := userData.(*Endpoint)
	switch c := ep.conn(); {
	case ep.w.selection.auxLost(ep, ue), ep.w.wireups.retryOtherDevices(ep, ue, err):
	case (c != nil && c.stage == connOpen || ep.life.Closing()) && errors.Is(err, ucs.ErrConnectionReset):
		ep.w.conns.reportQuietly(ep, life.Lost, err)
	default:
		ep.w.ends.laneFailed(ep, err)
	}
}

// laneFailed ends the endpoint because a lane has failed. If the peer has opened the endpoint, the
// peer is informed through the connection that its request came on: the peer's end may have no
// other lane to this end, and would wait for replies. If the lane was given up on this side, the
// connection is dropped as well. If the peer has closed the lane, the peer may have sent messages
// on the connection before. Then only the sending direction of the connection is ended, so that
// these messages are still received.
//
// If the connection carries another endpoint, the peer is not informed, because that endpoint would
// end with the connection. Transports pair the two directions of a connection in the order in which
// each side makes its endpoints. Therefore the connection that an endpoint was requested on soon
// becomes the lane of another endpoint: requests overtake each other, and a keepalive answer that
// an end does not exist removes an endpoint at one side only. In that case the peer finds out by
// its own keepalive, as it always does in C UCX (ucp_ep_set_failed in src/ucp/core/ucp_ep.c).
func (ee *endpointEnds) laneFailed(ep *Endpoint, err error) {
	opener := ep.w.accounts.openedBy(ep)
	ep.fail(err)
	switch {
	case opener == nil || opener.uct == nil || opener.opened > 0 || opener.uct.Shared():
	case errors.Is(err, ucs.ErrConnectionReset) && !errors.Is(err, ucs.ErrNoResource) && !errors.Is(err, ucs.ErrExceedsLimit):
		opener.uct.End()
	default:
		opener.uct.Drop(fmt.Errorf("ucp: the connection for replies was closed: %w", err))
	}
}
