package ucp

import "context"

// The operations for people: each starts one and waits for it, progressing the
// worker meanwhile. Where waiting is refused (inside a callback, or, unless the worker
// is in ThreadModeMulti, while another goroutine waits on it) nothing is started. When
// ctx ends first, its error comes back and the operation goes on without anybody
// waiting: the buffer stays the library's until the endpoint is closed. In the steady
// state they allocate nothing, and what is done in the call costs no wait.

// TagSendWait sends buf as TagSend does and waits until it may be reused.
func (ep *Endpoint) TagSendWait(ctx context.Context, tag Tag, buf []byte) error {
	return ep.tagSendWait(ctx, tag, buf, &tagForm, 0)
}

// TagSendSyncWait sends buf as TagSendSync does and waits until the receiver has
// matched the message.
func (ep *Endpoint) TagSendSyncWait(ctx context.Context, tag Tag, buf []byte) error {
	return ep.tagSendWait(ctx, tag, buf, &tagSyncForm, stateNoImm)
}

func (ep *Endpoint) tagSendWait(ctx context.Context, tag Tag, buf []byte, form *messageForm, flags requestState) error {
	c, err := ep.w.waitingCall(startTagSend)
	if err != nil {
		return err
	}
	c.ep, c.tag, c.buf, c.form, c.state, c.sends = ep, tag, buf, form, flags, true
	return c.wait(ctx)
}

// TagRecvWait receives a tagged message as TagRecv does and waits for it. If ctx
// ends before, nothing is received and buf is the caller's again: the error matches
// ucs.ErrCanceled. A message of which a part has arrived by then is lost. Only if the
// message is being fetched from its sender the error is the context's alone, and buf
// stays the library's until the endpoint is closed.
func (w *Worker) TagRecvWait(ctx context.Context, tag, mask Tag, buf []byte) (TagRecvInfo, error) {
	c, err := w.waitingCall(startTagRecv)
	if err != nil {
		return TagRecvInfo{}, err
	}
	c.tag, c.mask, c.buf = tag, mask, buf
	return c.waitRecv(ctx)
}

// RecvWait receives the message as Recv does and waits until it is there whole.
func (d *TagMessage) RecvWait(ctx context.Context, buf []byte) (TagRecvInfo, error) {
	if d == nil {
		return TagRecvInfo{}, errNoMessage
	}
	c, err := d.w.waitingCall(startRecv)
	if err != nil {
		return TagRecvInfo{}, err
	}
	c.msg, c.buf = d, buf
	return c.waitRecv(ctx)
}

// waitRecv is wait for receives, which may be over in the call.
func (c *call) waitRecv(ctx context.Context) (TagRecvInfo, error) {
	c.p = &c.params
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

// PutWait writes buf to the peer's memory as Put does and waits until buf may be
// reused. That the data is there takes a flush.
func (ep *Endpoint) PutWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	return ep.accessWait(ctx, startPut, buf, raddr, key)
}

// GetWait reads from the peer's memory as Get does and waits until the data is in
// buf.
func (ep *Endpoint) GetWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	return ep.accessWait(ctx, startGet, buf, raddr, key)
}

func (ep *Endpoint) accessWait(ctx context.Context, start func(*call) (*Request, error), buf []byte, raddr uint64, key *Rkey) error {
	c, err := ep.w.waitingCall(start)
	if err != nil {
		return err
	}
	c.ep, c.buf, c.raddr, c.key, c.sends = ep, buf, raddr, key, true
	return c.wait(ctx)
}

// AtomicWait does an atomic operation as Atomic does and waits until the value from
// before is in reply. Without one, reply nil, there is nothing to wait for.
func (ep *Endpoint) AtomicWait(ctx context.Context, op AtomicOp, operand []byte, raddr uint64, key *Rkey, reply []byte) error {
	c, err := ep.w.waitingCall(startAtomic)
	if err != nil {
		return err
	}
	c.ep, c.op, c.raddr, c.key = ep, op, raddr, key
	c.buf = c.operand[:copy(c.operand[:], operand)]
	c.p = &c.params
	c.p.ReplyBuffer = reply
	return c.wait(ctx)
}

// FlushWait flushes the endpoint as Flush does and waits for the end of it.
func (ep *Endpoint) FlushWait(ctx context.Context) error { return ep.endWith(ctx, startFlush) }

// FlushWait flushes every endpoint of the worker and waits for the end of it.
func (w *Worker) FlushWait(ctx context.Context) error {
	c, err := w.waitingCall(startWorkerFlush)
	if err != nil {
		return err
	}
	return c.wait(ctx)
}

// endWith waits for a flush of some kind.
func (ep *Endpoint) endWith(ctx context.Context, start func(*call) (*Request, error)) error {
	c, err := ep.w.waitingCall(start)
	if err != nil {
		return err
	}
	c.ep = ep
	return c.wait(ctx)
}
