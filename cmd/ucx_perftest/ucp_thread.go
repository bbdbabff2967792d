//go:build linux

package main

import (
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
)

// ucpRunner runs the stages of a test over UCP on one thread. Their loops are in
// ucp_tag.go and ucp_rma.go.
type ucpRunner struct {
	g member
	p *params
	c *counter

	poll func() int // progress, for barriers
	w    *ucp.Worker
	ep   *ucp.Endpoint

	sync    bool // synchronous sends
	probe   bool // receive only what has arrived
	sleep   bool // wait asleep
	block   bool // wait in the call
	tag     ucp.Tag
	mask    ucp.Tag
	sendBuf []byte // nil: the parameters have the data
	recvBuf []byte
	send    ucp.RequestParams
	recv    ucp.RequestParams

	sendParams, recvParams *ucp.RequestParams // those, nil if they ask for nothing

	ack      ucp.RequestParams // sends one byte
	ackBuf   []byte            // takes it
	rma      oneSided
	sends    window
	receives window
	spins    int  // rounds without progress after which others may run
	crowd    bool // other threads use the worker
	idle     int  // rounds of progress without any
}

// stage implements runner. The threads of a side begin and end together: their
// rates are to add up.
func (r *ucpRunner) stage() error {
	r.resetMemory()
	if err := r.g.barrier(r.poll); err != nil {
		return err
	}
	r.c.begin()
	if err := r.g.meet(r.poll); err != nil {
		return err
	}
	if err := r.traffic(); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.g.meet(r.poll); err != nil {
		return err
	}
	r.c.stop()
	return r.g.barrier(r.poll)
}

// progress implements runner.
func (r *ucpRunner) progress() int { return r.w.Progress() }

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

// awaitRoom waits until there is room in a window.
func (r *ucpRunner) awaitRoom(w *window) error {
	if !w.full() {
		return nil
	}
	return r.await(w.take())
}

// empty waits for everything in a window.
func (r *ucpRunner) empty(w *window) error {
	for w.count > 0 {
		if err := r.await(w.take()); err != nil {
			return err
		}
	}
	return nil
}

// drain waits for everything outstanding.
func (r *ucpRunner) drain() error {
	if err := r.empty(&r.receives); err != nil {
		return err
	}
	return r.empty(&r.sends)
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
		if r.crowd {
			runtime.Gosched() // it may have been for another one
		}
		return nil
	}
	if r.idle++; r.idle < r.spins && !r.sleep {
		return nil
	}
	return r.idled()
}

// idled looks for a reason not to wait any longer, and lets others run.
//
//go:noinline
func (r *ucpRunner) idled() error {
	if r.idle%checkRounds == 0 || r.sleep {
		if err := r.ep.Err(); err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
		if err := r.g.alive(); err != nil {
			return err
		}
	}
	if r.sleep {
		return r.w.Wait(r.g.ctx)
	}
	r.c.giveWay()
	return nil
}
