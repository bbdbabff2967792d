package ucp

import "context"

// StreamSendWait sends buf as StreamSend does and waits until it may be reused. The end of
// ctx means what it means for TagSendWait; of a piece that has begun to leave all of it is
// appended to the stream.
func (ep *Endpoint) StreamSendWait(ctx context.Context, buf []byte) error {
	if ep.missing() {
		return errMissing("Endpoint.StreamSendWait", ep == nil)
	}
	c, err := ep.w.waitingCall(startStreamSend)
	if err != nil {
		return err
	}
	c.ep, c.use, c.buf = ep, memoryRead, buf
	return c.wait(ctx)
}

// StreamRecvWait receives bytes as StreamRecv does and waits for some. If ctx ends before,
// nothing has been received and buf is the caller's again: the error matches
// ucs.ErrCanceled. No bytes are lost by that.
func (ep *Endpoint) StreamRecvWait(ctx context.Context, buf []byte) (int, error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.StreamRecvWait", ep == nil)
	}
	return ep.streamRecvWait(ctx, buf, 0)
}

// StreamRecvFullWait waits until buf is full. With an error n bytes have come, which are in
// buf: if ctx ends before it is full, which gives buf back and matches ucs.ErrCanceled, or
// if the endpoint fails. The next receive goes on behind them.
func (ep *Endpoint) StreamRecvFullWait(ctx context.Context, buf []byte) (n int, err error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.StreamRecvFullWait", ep == nil)
	}
	return ep.streamRecvWait(ctx, buf, StreamRecvWaitAll)
}

func (ep *Endpoint) streamRecvWait(ctx context.Context, buf []byte, flags StreamRecvFlags) (int, error) {
	c, err := ep.w.waitingCall(startStreamRecv)
	if err != nil {
		return 0, err
	}
	c.ep, c.use, c.buf = ep, memoryWritten, buf
	if flags != 0 {
		c.p = &c.params
		c.p.StreamFlags = flags
	}
	lost, err := c.await(ctx)
	if lost {
		return 0, err
	}
	n := c.info.Length
	c.drop()
	return n, err
}
