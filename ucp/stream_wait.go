package ucp

import "context"

// StreamSendWait sends buf as StreamSend does and waits until it may be reused. If ctx ends
// first it behaves as TagSendWait does; if part of buf has been sent, all of it is appended
// to the stream.
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

// StreamRecvWait receives bytes as StreamRecv does and waits for at least one. If ctx ends
// first, nothing has been received, no bytes are lost, buf is the caller's again, and the
// error matches ucs.ErrCanceled.
func (ep *Endpoint) StreamRecvWait(ctx context.Context, buf []byte) (int, error) {
	if ep.missing() {
		return 0, errMissing("Endpoint.StreamRecvWait", ep == nil)
	}
	return ep.streamRecvWait(ctx, buf, 0)
}

// StreamRecvFullWait waits until buf is full. With an error, the first n bytes of buf have
// been received, and the next receive continues behind them. If ctx ends first the error
// matches ucs.ErrCanceled and buf is the caller's again.
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
