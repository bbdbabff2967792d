package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// ucpRunner runs tests over UCP. Their loops are in ucp_tag.go and ucp_rma.go.
type ucpRunner struct {
	g group
	p *perfoob.Params
	c *counter

	poll func() int // progress, for barriers
	ctx  *ucp.Context
	w    *ucp.Worker
	ep   *ucp.Endpoint

	sync     bool // synchronous sends
	probe    bool // receive only what has arrived
	sleep    bool // wait asleep
	mask     ucp.Tag
	memory   [2]*ucp.Memory // of the messages
	sendBuf  []byte         // nil: the parameters have the data
	recvBuf  []byte
	send     ucp.RequestParams
	recv     ucp.RequestParams
	ack      ucp.RequestParams // sends one byte
	ackBuf   []byte            // takes it
	rma      oneSided
	window   int
	sending  int   // sends outstanding
	receives int   // receives outstanding
	idle     int   // rounds of progress without any
	err      error // the first failure of a request or of the endpoint
}

// newUCP makes the worker and connects it to the other side's.
func newUCP(g group, p *perfoob.Params, c *counter) (runner, error) {
	r := &ucpRunner{
		g: g, p: p, c: c,
		sync:   p.Test.Command == perfoob.CmdTagSync,
		probe:  p.Flags&perfoob.FlagTagUnexpProbe != 0,
		sleep:  p.WaitMode == perfoob.WaitSleep,
		mask:   ucp.FullMask,
		window: int(p.Window),
	}
	r.poll = r.progress
	if p.Flags&perfoob.FlagTagWildcard != 0 {
		r.mask = 0
	}
	err := r.open()
	if err == nil {
		err = r.allocate()
	}
	if err == nil {
		r.prepare()
		err = r.connect()
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *ucpRunner) open() error {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return err
	}
	params := ucp.ContextParams{
		Features:    ucpFeatures(r.p),
		PeerRelease: peerRelease(r.g.release()),
		Name:        "perftest",
	}
	if r.sleep || r.p.Flags&perfoob.FlagWakeup != 0 {
		params.Features |= ucp.FeatureWakeup
	}
	if r.ctx, err = ucp.NewContext(params, cfg); err != nil {
		return err
	}
	r.w, err = r.ctx.NewWorker(ucp.WorkerParams{ThreadMode: r.p.ThreadMode})
	return err
}

// allocate allocates the messages from the library, as C's tool does
// (ucp_perf_test_alloc_mem in lib/libperf_memory.c). One-sided tests open the
// received one to the other side.
func (r *ucpRunner) allocate() error {
	for k := range r.memory {
		m, err := r.ctx.MemMap(ucp.MemMapParams{
			Length: max(r.p.Extent(), 1), Flags: ucp.MemMapAllocate, Name: "perftest",
		})
		if err != nil {
			return err
		}
		r.memory[k] = m
	}
	if isOneSided(r.p.Test.Command) {
		r.rma.cmd = r.p.Test.Command
		r.rma.memory = r.memory[received]
	}
	return nil
}

// Indices of ucpRunner.memory.
const (
	sent = iota
	received
)

// unmap releases the messages.
func (r *ucpRunner) unmap() (err error) {
	for _, m := range r.memory {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

// prepare sets the parameters of the operations, which do not change during the
// test.
func (r *ucpRunner) prepare() {
	sendMem, recvMem := r.memory[sent].Bytes(), r.memory[received].Bytes()
	r.send.OnSend, r.recv.OnTagRecv, r.ack.OnSend = r.sent, r.received, r.sent
	if r.p.Test.Type == perfoob.StreamUni {
		r.send.Flags |= ucp.OpMultiSend
		r.recv.Flags |= ucp.OpMultiSend
		r.ack.Flags |= ucp.OpMultiSend
	}
	if r.p.SendType == perfoob.IOV {
		parts := pieces(sendMem, r.p)
		r.send.Buffer = ucp.IOV(parts...)
		r.ack.Buffer = ucp.IOV(parts[0]) // as C: one entry, not one byte
	} else {
		r.sendBuf = sendMem[:r.p.MessageSize()]
		if isAtomic(r.rma.cmd) && r.rma.memory != nil && r.rma.cmd != perfoob.CmdAdd {
			r.send.ReplyBuffer = r.sendBuf
		}
		r.ack.Buffer = ucp.Bytes(sendMem[:1])
	}
	if r.p.RecvType == perfoob.IOV {
		r.recv.Buffer = ucp.IOV(pieces(recvMem, r.p)...)
	} else {
		r.recvBuf = recvMem[:r.p.MessageSize()]
	}
	r.ackBuf = recvMem
}

// connect exchanges addresses and connects.
func (r *ucpRunner) connect() error {
	own, err := r.info()
	if err != nil {
		return err
	}
	v, err := r.g.exchange(own.Append(nil), r.g.release().MaxInfo())
	if err != nil {
		return err
	}
	if err := agree(r.g, r.connectTo(v)); err != nil {
		return err
	}
	// Both sides connect now, not in the first stage.
	return r.flush()
}

func (r *ucpRunner) connectTo(info []byte) error {
	peer, err := perfoob.ParseUCPInfo(info)
	if err != nil {
		return err
	}
	params := ucp.EndpointParams{Address: peer.Address}
	if r.p.Flags&perfoob.FlagErrHandling != 0 {
		params.ErrMode = ucp.ErrModePeer
		params.OnError = func(_ *ucp.Endpoint, err error, _ any) { r.fail(fmt.Errorf("endpoint: %w", err)) }
	}
	if r.ep, err = r.w.NewEndpoint(params); err != nil {
		return err
	}
	return r.openKey(&peer)
}

// fail keeps the first failure.
func (r *ucpRunner) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// flush waits until everything sent has left.
func (r *ucpRunner) flush() error {
	var req *ucp.Request
	var err error
	if r.p.Flags&perfoob.FlagFlushEP != 0 {
		req, err = r.ep.Flush(nil)
	} else {
		req, err = r.w.Flush(nil)
	}
	if err != nil {
		return err
	}
	return r.await(req)
}

// await progresses until a request is done, and frees it.
func (r *ucpRunner) await(req *ucp.Request) error {
	for !req.Done() {
		if err := r.advance(); err != nil {
			return err
		}
	}
	err := req.Err()
	req.Free()
	return err
}

// advance progresses the worker.
func (r *ucpRunner) advance() error {
	if r.w.Progress() > 0 {
		r.idle = 0
		return nil
	}
	if r.idle++; r.idle < spinRounds && !r.sleep {
		return nil
	}
	return r.idled()
}

// idled looks for a reason not to wait any longer, and lets others run.
//
//go:noinline
func (r *ucpRunner) idled() error {
	if r.err != nil {
		return r.err
	}
	if r.idle%checkRounds == 0 || r.sleep {
		if r.ep != nil && r.ep.Err() != nil {
			return fmt.Errorf("endpoint: %w", r.ep.Err())
		}
		if err := r.g.alive(); err != nil {
			return err
		}
	}
	if r.sleep {
		return r.w.Wait(context.Background())
	}
	r.c.giveWay()
	return nil
}

// progress implements runner.
func (r *ucpRunner) progress() int { return r.w.Progress() }

// finish implements runner: both sides close their endpoints between two
// barriers, so that neither is gone while the other still flushes.
func (r *ucpRunner) finish() error {
	if err := r.g.barrier(r.poll); err != nil {
		return err
	}
	if err := r.closeKey(); err != nil {
		return err
	}
	req, err := r.ep.CloseAsync(nil)
	if err != nil {
		return err
	}
	if err := r.await(req); err != nil && !errors.Is(err, ucs.ErrCanceled) {
		return err
	}
	r.ep = nil
	return r.g.barrier(r.poll)
}

// close implements runner.
func (r *ucpRunner) close() error {
	err := r.closeKey()
	if r.w != nil {
		err = errors.Join(err, r.w.Close())
	}
	err = errors.Join(err, r.unmap())
	if r.ctx != nil {
		err = errors.Join(err, r.ctx.Close())
	}
	return err
}
