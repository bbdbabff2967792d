//go:build linux

package main

import (
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
)

// ucpRunner runs the stages of a test over UCP on one thread. The loops are in ucp_loops.go and
// ucp_rma.go.
type ucpRunner struct {
	g member
	p *params
	c *counter

	poll func() int // the method progress, for barriers
	w    *ucp.Worker
	ep   *ucp.Endpoint

	cmd          perfoob.Command
	probe        bool // receive only messages that have arrived
	sleep        bool // sleep while waiting
	block        bool // wait in blocking calls
	passive      bool // make no progress while waiting for the other side's accesses
	sharedWorker bool // other threads use the worker
	spins        int  // rounds without progress after which other goroutines and processes may run
	idle         int  // consecutive rounds without progress
	tag          ucp.Tag
	mask         ucp.Tag
	sendBuf      []byte // nil if the parameters have the data
	recvBuf      []byte
	sends        window
	receives     window
	rma          oneSided
	am           activeMessages
	unread       int // bytes of the next message that StreamRecvData has already returned

	sendParams, recvParams *ucp.RequestParams // point to fields send and recv; nil if those are empty

	send    ucp.RequestParams
	recv    ucp.RequestParams
	asking  ucp.RequestParams  // parameters of a send that must return its request (-X)
	usual   *ucp.RequestParams // the value of sendParams for other operations
	ack     ucp.RequestParams  // parameters of the acknowledgement, if the parameters have the data
	ackBuf  []byte             // receives the acknowledgement
	ackSize int
}

// oneSided holds the state of the one-sided tests.
type oneSided struct {
	on     bool      // the test is one-sided
	key    *ucp.Rkey // unpacked key of the other side's memory
	remote uint64    // the address of that memory
	number byte      // the number of the next message
}

// activeMessages holds the state of the tests with active messages. Their handler only counts eager
// messages and receives rendezvous messages. The first messages of a stage may arrive before the
// barrier at its beginning is over.
type activeMessages struct {
	header []byte // the header of sent messages
	copies []byte // the buffer to which data is copied with -y, else nil
	came   uint64 // messages that have arrived
	taken  uint64 // messages that a receive has consumed
	err    error  // the error of a message whose receive failed
}

// progress implements runner.
func (r *ucpRunner) progress() int { return r.w.Progress() }

// flush waits until all sends are complete.
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

// empty waits for all requests in a window.
func (r *ucpRunner) empty(w *window) error {
	for w.count > 0 {
		if err := r.await(w.take()); err != nil {
			return err
		}
	}
	return nil
}

// drain waits for all outstanding requests.
func (r *ucpRunner) drain() error {
	if err := r.empty(&r.receives); err != nil {
		return err
	}
	return r.empty(&r.sends)
}

// await progresses until a request is done, and frees the request.
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
		if r.sharedWorker {
			runtime.Gosched() // the progress may have been for another thread
		}
		return nil
	}
	if r.idle++; r.idle < r.spins && !r.sleep {
		return nil
	}
	return r.idled()
}

// serve is advance for a thread that waits for the other side's accesses.
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

// idled checks for errors that end the wait, and lets other goroutines and processes run.
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
