package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// talkTag is the tag of ucp_client_server, whose active messages have the id 0.
const talkTag ucp.Tag = 0xcafe

// talk plays one side of ucp_client_server: the client sends the same message several times, as
// pieces of length bytes each, and with fin the server replies once.
type talk struct {
	*partner
	way                        string
	iterations, pieces, length int
	fin                        bool
	queue                      *ucp.AMQueue
}

func (t *talk) run(serves bool, addr string) (err error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	if t.way == "am" {
		if t.queue, err = t.worker.NewAMQueue(ucp.AMQueueParams{ID: 0, Offers: true}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.queue.Close()) }()
	}
	if serves {
		err = t.serve(at)
	} else {
		err = t.dial(at)
	}
	if t.ep != nil {
		err = errors.Join(err, t.ep.Close())
	}
	return err
}

// dial plays the client. A server that sends no FIN closes after the last message.
func (t *talk) dial(addr netip.AddrPort) (err error) {
	t.ep, err = t.worker.NewEndpoint(ucp.EndpointParams{RemoteAddr: addr, ErrMode: ucp.ErrModePeer, OnError: t.onError})
	if err != nil {
		return err
	}
	for range t.iterations {
		if err := t.send(); err != nil {
			return err
		}
	}
	if t.fin {
		return t.receive(nil)
	}
	return t.closed()
}

func (t *talk) serve(addr netip.AddrPort) (err error) {
	var failed error
	l, err := t.worker.NewListener(ucp.ListenerParams{Addr: addr, OnConnRequest: func(r *ucp.ConnRequest) {
		t.ep, failed = t.worker.NewEndpoint(ucp.EndpointParams{ConnRequest: r, ErrMode: r.ErrMode(), OnError: t.onError})
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	listening(l.Addr())
	for t.ep == nil {
		if failed != nil || t.ctx.Err() != nil {
			return fmt.Errorf("no client: %w", errors.Join(failed, t.ctx.Err()))
		}
		t.worker.Progress()
	}
	for range t.iterations {
		if err := t.receive(t.clientMessage()); err != nil {
			return err
		}
	}
	if t.fin {
		if err := t.send(); err != nil {
			return err
		}
	}
	return t.closed()
}

// closed waits for the other side to close.
func (t *talk) closed() error {
	if err := t.lost(); err != nil {
		return err
	}
	if got := ucs.StatusOf(t.failure); got != ucs.ErrConnectionReset {
		return fmt.Errorf("unexpected error after the peer's close: %w", t.failure)
	}
	return nil
}

// clientMessage returns the message that the client is expected to send.
func (t *talk) clientMessage() []byte { return bytes.Repeat(text(t.length), t.pieces) }

func (t *talk) send() error {
	switch t.way {
	case "stream":
		return t.ep.StreamSendWait(t.ctx, t.clientMessage())
	case "tag":
		return t.ep.TagSendWait(t.ctx, talkTag, t.clientMessage())
	}
	return t.ep.AMSendWait(t.ctx, 0, nil, t.clientMessage(), 0)
}

// receive receives a message and compares it with want, unless want is nil.
func (t *talk) receive(want []byte) (err error) {
	buf := make([]byte, t.pieces*t.length)
	n := 0
	switch t.way {
	case "stream":
		n, err = t.ep.StreamRecvFullWait(t.ctx, buf)
	case "tag":
		var info ucp.TagRecvInfo
		info, err = t.worker.TagRecvWait(t.ctx, 0, 0, buf)
		n = info.Length
	case "am":
		var m *ucp.AMMessage
		if m, err = t.queue.Next(t.ctx); err == nil {
			n, err = m.RecvWait(t.ctx, buf)
		}
	}
	if err == nil && (n != len(buf) || want != nil && !bytes.Equal(buf, want)) {
		err = fmt.Errorf("received %d bytes of %d, or others than were sent", n, len(buf))
	}
	return err
}
