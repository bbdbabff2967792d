package main

import (
	"context"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// ucpLink is one worker and one endpoint for all goroutines. The tag of a message is the number of
// its goroutine.
type ucpLink struct {
	ctx    *ucp.Context
	worker *ucp.Worker
	ep     *ucp.Endpoint
}

func openUCP(p pipe) (link, error) {
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureWakeup}, nil)
	if err != nil {
		return nil, err
	}
	worker, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
	if err != nil {
		return nil, err
	}
	own, err := worker.Address(0)
	if err != nil {
		return nil, err
	}
	other, err := p.exchange(own)
	if err != nil {
		return nil, err
	}
	ep, err := worker.NewEndpoint(ucp.EndpointParams{Address: other})
	if err != nil {
		return nil, err
	}
	return &ucpLink{ctx, worker, ep}, nil
}

func (l *ucpLink) ask(n int, message []byte) error {
	if err := l.ep.TagSendWait(context.Background(), ucp.Tag(n), message); err != nil {
		return err
	}
	return l.receive(n, message)
}

func (l *ucpLink) answer(n int, message []byte) error {
	if err := l.receive(n, message); err != nil {
		return err
	}
	return l.ep.TagSendWait(context.Background(), ucp.Tag(n), message)
}

func (l *ucpLink) receive(n int, message []byte) error {
	_, err := l.worker.TagRecvWait(context.Background(), ucp.Tag(n), ucp.FullMask, message)
	return err
}

func (l *ucpLink) close() error {
	if err := l.worker.Shutdown(context.Background()); err != nil {
		return err
	}
	return l.ctx.Close()
}
