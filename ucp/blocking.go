package ucp

import "context"

// The operations for people: each starts one and waits for it, progressing the
// worker meanwhile. Where waiting is refused (inside a callback, or while another
// goroutine waits on the worker) nothing is started. When ctx ends first, its error
// comes back and the operation goes on without anybody waiting: the buffer stays
// the library's until the endpoint is closed. In the steady state they allocate
// nothing, and what is done in the call costs no wait.

// TagSendWait sends buf as TagSend does and waits until it may be reused.
func (ep *Endpoint) TagSendWait(ctx context.Context, tag Tag, buf []byte) error {
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	req, err := ep.TagSend(tag, buf, nil)
	return finishWait(ctx, req, err)
}

// TagSendSyncWait sends buf as TagSendSync does and waits until the receiver has
// matched the message.
func (ep *Endpoint) TagSendSyncWait(ctx context.Context, tag Tag, buf []byte) error {
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	req, err := ep.TagSendSync(tag, buf, nil)
	return finishWait(ctx, req, err)
}

// TagRecvWait receives a tagged message as TagRecv does and waits for it. If ctx
// ends before, nothing is received and buf is the caller's again: the error matches
// ucs.ErrCanceled. A message of which a part has arrived by then is lost. Only if the
// message is being fetched from its sender the error is the context's alone, and buf
// stays the library's until the endpoint is closed.
func (w *Worker) TagRecvWait(ctx context.Context, tag, mask Tag, buf []byte) (TagRecvInfo, error) {
	if err := w.enterWait(); err != nil {
		return TagRecvInfo{}, err
	}
	defer w.leaveWait()
	p := RequestParams{TagInfo: &w.waitInfo}
	req, err := w.TagRecv(tag, mask, buf, &p)
	switch {
	case err != nil:
		return TagRecvInfo{}, err
	case req == nil:
		return w.waitInfo, nil
	}
	return finishRecv(ctx, req)
}

// RecvWait receives the message as Recv does and waits until it is there whole.
func (d *TagMessage) RecvWait(ctx context.Context, buf []byte) (TagRecvInfo, error) {
	if d == nil {
		return TagRecvInfo{}, errNoMessage
	}
	w := d.w
	if err := w.enterWait(); err != nil {
		return TagRecvInfo{}, err
	}
	defer w.leaveWait()
	p := RequestParams{TagInfo: &w.waitInfo}
	req, err := d.Recv(buf, &p)
	switch {
	case err != nil:
		return TagRecvInfo{}, err
	case req == nil:
		return w.waitInfo, nil
	}
	return finishRecv(ctx, req)
}

// PutWait writes buf to the peer's memory as Put does and waits until buf may be
// reused. That the data is there takes a flush.
func (ep *Endpoint) PutWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	req, err := ep.Put(buf, raddr, key, nil)
	return finishWait(ctx, req, err)
}

// GetWait reads from the peer's memory as Get does and waits until the data is in
// buf.
func (ep *Endpoint) GetWait(ctx context.Context, buf []byte, raddr uint64, key *Rkey) error {
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	req, err := ep.Get(buf, raddr, key, nil)
	return finishWait(ctx, req, err)
}

// AtomicWait does an atomic operation as Atomic does and waits until the value from
// before is in reply. Without one, reply nil, there is nothing to wait for.
func (ep *Endpoint) AtomicWait(ctx context.Context, op AtomicOp, operand []byte, raddr uint64, key *Rkey, reply []byte) error {
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	p := RequestParams{ReplyBuffer: reply}
	req, err := ep.Atomic(op, operand, raddr, key, &p)
	return finishWait(ctx, req, err)
}

// FlushWait flushes the endpoint as Flush does and waits for the end of it.
func (ep *Endpoint) FlushWait(ctx context.Context) error {
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	req, err := ep.Flush(nil)
	return finishWait(ctx, req, err)
}

// FlushWait flushes every endpoint of the worker and waits for the end of it.
func (w *Worker) FlushWait(ctx context.Context) error {
	if err := w.enterWait(); err != nil {
		return err
	}
	defer w.leaveWait()
	req, err := w.Flush(nil)
	return finishWait(ctx, req, err)
}

// finishWait waits for what was started, if it is not over, and gives its request
// back. The caller has entered the wait.
func finishWait(ctx context.Context, req *Request, err error) error {
	if err != nil || req == nil {
		return err
	}
	err = req.await(ctx)
	req.free()
	return err
}

// finishRecv is finishWait for a receive.
func finishRecv(ctx context.Context, req *Request) (info TagRecvInfo, err error) {
	if err = req.await(ctx); err == nil {
		info = req.info
	} else if !req.Done() { // and nobody will wait for the rest of the message
		if req.w.Cancel(req); req.Done() {
			err = canceledBy(ctx)
		}
	}
	req.free()
	return info, err
}
