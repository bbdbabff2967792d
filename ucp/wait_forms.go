package ucp

import (
	"context"
)

// Blocking forms of the operations. Each starts an operation, and progresses the worker until the
// operation is done. If waiting is refused (inside a callback, or, unless the worker is in
// ThreadModeMulti, while another goroutine waits on the worker), no operation is started. The
// package comment says what the end of ctx means for each form. In the steady state the forms
// allocate nothing, and an operation that is done in the call does not wait.

// TagSendWait sends buf as TagSend does and waits until buf may be reused. If ctx ends
// before any of the message has been sent, it is not sent, and the error matches
// ucs.ErrCanceled. If part of it has been sent, the send goes on. Then, if the error also
// matches ucs.InProgress, buf must not be changed before the endpoint is closed; otherwise
// buf is the caller's again.
func (ep *Endpoint) TagSendWait(ctx context.Context, tag Tag, buf []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.TagSendWait", ep == nil)
	}
	return ep.w.tag.tagSendWait(ep, ctx, tag, buf, &tagForm, 0)
}

// TagSendSyncWait sends buf as TagSendSync does and waits until the receiver has matched
// the message. If ctx ends first it behaves as TagSendWait does.
func (ep *Endpoint) TagSendSyncWait(ctx context.Context, tag Tag, buf []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.TagSendSyncWait", ep == nil)
	}
	return ep.w.tag.tagSendWait(ep, ctx, tag, buf, &tagSyncForm, stateNoImm)
}

func (ts *tagState) tagSendWait(ep *Endpoint, ctx context.Context, tag Tag, buf []byte, form *messageForm, flags requestState) error {
	c, err := ep.w.waitingCall(startTagSend)
	if err != nil {
		return err
	}
	c.ep, c.tag, c.buf, c.form, c.state = ep, tag, buf, form, flags
	c.use = memoryRead
	return c.wait(ctx)
}

// TagRecvWait receives a tagged message as TagRecv does and waits for it. If ctx ends
// first, nothing is received and the error matches ucs.ErrCanceled; a message of which a
// part has arrived goes to a later receive, as with Worker.Cancel. A message that is being
// fetched from its sender cannot be given back: the call waits for it even after ctx has
// ended, until the fetch, the sender or the connection ends. When the call returns, buf is
// the caller's in any case.
func (w *Worker) TagRecvWait(ctx context.Context, tag, mask Tag, buf []byte) (TagRecvInfo, error) {
	if w.missing() {
		return TagRecvInfo{}, errMissing("Worker.TagRecvWait", w == nil)
	}
	c, err := w.waitingCall(startTagRecv)
	if err != nil {
		return TagRecvInfo{}, err
	}
	c.tag, c.mask, c.buf = tag, mask, buf
	return c.waitRecv(ctx)
}

// RecvWait receives the message as Recv does and waits until all of it has arrived. If ctx
// ends first it behaves as Worker.TagRecvWait does; a message that is given back goes to a
// later receive of its tag.
func (d *TagMessage) RecvWait(ctx context.Context, buf []byte) (TagRecvInfo, error) {
	if d.missing() {
		return TagRecvInfo{}, errMissing("TagMessage.RecvWait", d == nil)
	}
	c, err := d.w.waitingCall(startRecv)
	if err != nil {
		return TagRecvInfo{}, err
	}
	c.msg, c.buf = d, buf
	return c.waitRecv(ctx)
}

// waitRecv is wait for receives. It also returns the info of a receive that is done in the call.
func (c *call) waitRecv(ctx context.Context) (TagRecvInfo, error) {
	c.use, c.p = memoryWritten, &c.params
	c.p.TagInfo = &c.info
	lost, err := c.await(ctx)
	if lost {
		return TagRecvInfo{}, err
	}
	info := c.info
	c.drop()
	if err != nil {
		return TagRecvInfo{}, err
	}
	return info, nil
}

// PutWait writes buf to the peer's memory as Put does and waits until buf may be reused.
// Only a flush guarantees that the data has reached the peer's memory. If ctx ends first it
// behaves as TagSendWait does.
func (ep *Endpoint) PutWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	if ep.missing() {
		return errMissing("Endpoint.PutWait", ep == nil)
	}
	return ep.w.rma.accessWait(ep, ctx, startPut, memoryRead, buf, raddr, key)
}

// GetWait reads from the peer's memory as Get does and waits until the data is in buf. If
// ctx ends before the operation has begun, it is not carried out and the error matches
// ucs.ErrCanceled. An operation that has begun is waited for.
func (ep *Endpoint) GetWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	if ep.missing() {
		return errMissing("Endpoint.GetWait", ep == nil)
	}
	return ep.w.rma.accessWait(ep, ctx, startGet, memoryWritten, buf, raddr, key)
}

func (rm *rmaState) accessWait(ep *Endpoint, ctx context.Context, start func(*call) (*Request, error), use memoryUse, buf []byte, raddr uint64, key *Rkey) error {
	c, err := ep.w.waitingCall(start)
	if err != nil {
		return err
	}
	c.ep, c.use, c.buf, c.raddr, c.key = ep, use, buf, raddr, key
	return c.wait(ctx)
}

// AtomicWait starts an atomic operation as Atomic does and waits until the previous value
// is in reply. If reply is nil there is nothing to wait for. If ctx ends before the
// operation has begun, it is not carried out and the error matches ucs.ErrCanceled. An
// operation that has begun goes on, and nothing is stored in reply.
func (ep *Endpoint) AtomicWait(ctx context.Context, op AtomicOp, operand []byte, raddr uint64, key *Rkey, reply []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.AtomicWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startAtomic)
	if err != nil {
		return err
	}
	c.ep, c.op, c.raddr, c.key = ep, op, raddr, key
	c.buf = c.operand[:copy(c.operand[:], operand)]
	c.use, c.p = memoryOwn, &c.params
	c.p.ReplyBuffer = reply
	if n := len(reply); n > 0 && n <= len(c.reply) {
		c.p.ReplyBuffer = c.reply[:copy(c.reply[:], reply)] // copied in, because compare-and-swap reads it
	}
	lost, err := c.await(ctx)
	if lost {
		return err
	}
	if err == nil {
		copy(reply, c.p.ReplyBuffer)
	}
	c.drop()
	return err
}

// FlushWait flushes the endpoint as Flush does and waits until the flush is done. If ctx
// ends first its error is returned, and the flush goes on.
func (ep *Endpoint) FlushWait(ctx context.Context) error {
	if ep.missing() {
		return errMissing("Endpoint.FlushWait", ep == nil)
	}
	return ep.w.ends.endWith(ep, ctx, startFlush)
}

// FlushWait flushes every endpoint of the worker and waits until the flush is done.
func (w *Worker) FlushWait(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.FlushWait", w == nil)
	}
	c, err := w.waitingCall(startWorkerFlush)
	if err != nil {
		return err
	}
	return c.wait(ctx)
}

// endWith calls start for the endpoint and waits for the end of the operation.
func (ee *endpointEnds) endWith(ep *Endpoint, ctx context.Context, start func(*call) (*Request, error)) error {
	c, err := ep.w.waitingCall(start)
	if err != nil {
		return err
	}
	c.ep = ep
	return c.wait(ctx)
}
