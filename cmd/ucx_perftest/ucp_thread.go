//go:build linux

package main

import (
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
)

// ucpRunner runs the stages of a test over UCP on one thread. Their loops are in
// ucp_loops.go and ucp_rma.go.
type ucpRunner struct {
	g member
	p *params
	c *counter

	poll func() int // progress, for barriers
	w    *ucp.Worker
	ep   *ucp.Endpoint

	cmd      perfoob.Command
	probe    bool // receive only what has arrived
	sleep    bool // wait asleep
	block    bool // wait in the call
	passive  bool // progress nothing for the other side's accesses
	crowd    bool // other threads use the worker
	spins    int  // rounds without progress after which others may run
	idle     int  // rounds of progress without any
	tag      ucp.Tag
	mask     ucp.Tag
	sendBuf  []byte // nil: the parameters have the data
	recvBuf  []byte
	sends    window
	receives window
	rma      oneSided
	am       activeMessages
	unread   int // bytes of a stream that were taken, of the next message

	sendParams, recvParams *ucp.RequestParams // send and recv, nil if they ask for nothing

	send    ucp.RequestParams
	recv    ucp.RequestParams
	asking  ucp.RequestParams  // the sends', for who wants to know more about one
	usual   *ucp.RequestParams // sendParams otherwise
	ack     ucp.RequestParams  // of the acknowledgement, where the parameters have the data
	ackBuf  []byte             // takes it
	ackSize int
}

// oneSided is what the one-sided tests need besides a worker.
type oneSided struct {
	on     bool      // this is such a test
	key    *ucp.Rkey // of the other side's memory
	remote uint64    // its address
	number byte      // of the next message
}

// activeMessages is what their tests need besides a worker. What comes is only counted,
// and what is offered fetched; before the sides meet at the beginning of a stage the
// first of its messages may be here already.
type activeMessages struct {
	header []byte // of those that are sent
	copies []byte // where the data is copied to, nil: it is not (-y)
	came   uint64 // messages that are here
	taken  uint64 // and were waited for
	err    error  // why one did not come
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
		r.c.worked()
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

// serve is advance for who waits for the other side's accesses.
func (r *ucpRunner) serve() error {
	if !r.passive {
		return r.advance()
	}
	r.c.worked()
	if r.idle++; r.idle < r.spins {
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
		if r.am.err != nil {
			return r.am.err
		}
		if err := r.g.alive(); err != nil {
			return err
		}
	}
	if r.sleep {
		return r.w.Wait(r.g.ctx)
	}
	if r.idle%yieldRounds == 0 {
		r.c.giveWay()
	}
	return nil
}
