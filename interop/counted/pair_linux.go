package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// pair is two workers with an endpoint to each other, or one with an endpoint to itself, which
// stands for both.
type pair struct {
	op      func(p *pair, from int)
	workers [2]*ucp.Worker
	ends    [2]*ucp.Endpoint // each leads to the other worker
	model   *verbstest.Fabric

	out, in []byte // what is sent, and where it arrives
	header  []byte
	arrived bool         // an active message, at its handler
	fetch   *ucp.Request // of its data

	words, old []byte // of the atomic operation: the operand and the result
	keys       [2]*ucp.Rkey
	addr       uint64 // of the memory that the keys open
	address    [2]ucp.Address
	ctx        context.Context
}

// amID is the number of the active messages.
const amID = 1

// newPair opens the workers and connects them.
func newPair(op operation, size int, mode ucs.ThreadMode) (*pair, error) {
	p := &pair{
		op: op.run, out: buffer(size), in: buffer(size), header: buffer(16), words: buffer(8), old: buffer(8),
		ctx: context.Background(),
	}
	if *rdma != "" {
		p.model = newModel()
	}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: op.features}, nil)
	if err != nil {
		return nil, err
	}
	for i := range p.workers {
		if i == 1 && *self {
			p.workers[1] = p.workers[0]
			break
		}
		if p.workers[i], err = ctx.NewWorker(ucp.WorkerParams{ThreadMode: mode}); err != nil {
			return nil, err
		}
		if op.features&ucp.FeatureAM != 0 {
			if err := p.workers[i].SetAMHandler(ucp.AMHandlerParams{ID: amID, Handler: p.onMessage}); err != nil {
				return nil, err
			}
		}
	}
	for i := range p.ends {
		if i == 1 && *self {
			p.ends[1], p.address[1] = p.ends[0], p.address[0]
			break
		}
		if p.address[i], err = p.workers[1-i].Address(0); err != nil {
			return nil, err
		}
		if p.ends[i], err = p.workers[i].NewEndpoint(ucp.EndpointParams{Address: p.address[i]}); err != nil {
			return nil, err
		}
	}
	if op.features&ucp.FeatureRMA == 0 {
		return p, nil
	}
	return p, p.share(ctx, max(size, 8))
}

// newModel makes a device that works in this process. The transports over it find it like others.
func newModel() *verbstest.Fabric {
	config := verbstest.Config{Name: "model0"}
	if *rdma == "mlx5" {
		config.MLX5 = new(verbstest.MLX5)
	}
	n := verbstest.NewFabric()
	n.Add(config)
	uct.Register(ibtest.Named("model", n.Devices()...))
	return n
}

// buffer returns memory that is aligned to a cache line.
func buffer(size int) []byte { return make([]byte, max(size, 64))[:size] }

// share opens memory of this process to both endpoints.
func (p *pair) share(ctx *ucp.Context, size int) error {
	mem, err := ctx.Alloc(size, 0)
	if err != nil {
		return err
	}
	key, err := mem.PackRkey()
	if err != nil {
		return err
	}
	p.addr = mem.Attr().Address
	for i := range p.keys {
		if p.keys[i], err = p.ends[i].UnpackRkey(key); err != nil {
			return err
		}
	}
	return nil
}

// once carries out the operation, which the worker from begins.
func (p *pair) once(from int) { p.op(p, from) }

// settle progresses both workers until nothing is under way any more.
func (p *pair) settle() {
	for range 50 {
		p.progress(0)
		p.progress(1)
	}
}

// rest progresses both workers until the timers that operations have set have expired. While a
// timer is set a round looks at it.
func (p *pair) rest() {
	for start := time.Now(); time.Since(start) < 200*time.Millisecond; {
		p.settle()
	}
}

// progress is a round of a worker, and of the model of the device.
func (p *pair) progress(i int) {
	if p.model != nil {
		p.model.Progress()
	}
	p.workers[i].Progress()
}

// wait progresses both workers by turns until an operation is done.
func (p *pair) wait(r *ucp.Request, first int) {
	for !r.Done() {
		p.progress(first)
		if r.Done() {
			break
		}
		p.progress(1 - first)
	}
	if err := r.Err(); err != nil {
		fail(err)
	}
	r.Free()
}

// check ends the program if an operation has failed.
func check(err error) {
	if err != nil {
		fail(err)
	}
}

//go:noinline
func fail(err error) {
	fmt.Fprintln(os.Stderr, "counted:", err)
	os.Exit(1)
}
