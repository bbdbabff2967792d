//go:build linux

package interop

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestListenerLost kills the other side of a connection by socket address at each step. The Go side
// gets an error, its operations end, and it keeps working. A Go server accepts the next client.
func TestListenerLost(t *testing.T) {
	eachDialing(t, dialingRoutes[:1], func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		loseDialed(t, where, ours, theirs, weServe, over, nil, often)
	})
}

// dialedSteps are the moments at which the other side is killed.
var dialedSteps = map[string]func(d *dialing) error{
	"before the answer":      (*dialing).lostBefore,
	"behind the answer":      (*dialing).lostUnused,
	"amid messages":          (*dialing).lostAmid,
	"stopped, while closing": (*dialing).lostClosing,
}

// loseDialed kills the other side at some steps, or at all if steps is nil.
func loseDialed(t *testing.T, where *place, ours, theirs program, weServe bool, over route, steps []string, env ...string) {
	for name, step := range dialedSteps {
		if steps != nil && !slices.Contains(steps, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer", both: env}, over)
			if err != nil {
				t.Fatal(err)
			}
			defer d.report(t)
			if err := step(d); err != nil {
				t.Fatal(err)
			}
			if !weServe {
				if err := d.ours.exit(); err != nil {
					t.Error(err)
				}
				return
			}
			if d.client, err = startPeer(where, theirs.path, slices.Concat(over.env(false), theirs.env)); err != nil {
				t.Fatal(err)
			}
			defer d.client.kill()
			if err := d.again(); err != nil {
				t.Error(err)
			}
		})
	}
}

// again runs a whole connection of another client.
func (d *dialing) again() error {
	if err := d.connect(); err != nil {
		return err
	}
	if err := expected("contig", "contig", "sync")(d.client, d.server, &d.msgs, 100); err != nil {
		return err
	}
	return d.part(d.client, d.server)
}

// closeOurs closes the Go endpoint after a failure.
func (d *dialing) closeOurs() error {
	n := d.ours.request()
	if err := d.ours.do("close", n, ep, "flush"); err != nil {
		return err
	}
	_, err := d.ours.wait(n, 0) // any status will do
	return err
}

// lostBefore kills it after the client's request, before the answer.
func (d *dialing) lostBefore() error {
	if err := d.dial(ep, "plain"); err != nil {
		return err
	}
	if _, err := d.called(0); err != nil {
		return err
	}
	d.theirs.process.kill()
	if d.server == d.ours {
		// accept itself may return the error.
		var gone commandError
		if err := d.accept(ep); errors.As(err, &gone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return errors.Join(d.ours.lost(ep), d.closeOurs())
}

// lostUnused kills it before anything was sent.
func (d *dialing) lostUnused() error {
	if err := d.connect(); err != nil {
		return err
	}
	d.theirs.process.kill()
	return errors.Join(d.ours.lost(ep), d.closeOurs())
}

// begin starts operations that need the other side to complete.
func (d *dialing) begin() (requests []int, err error) {
	for _, size := range []int{8, 4 << 20} {
		n, err := d.ours.send(ep, d.msgs.next(size), "contig", "sync")
		if err != nil {
			return nil, err
		}
		requests = append(requests, n)
	}
	n, err := d.ours.streamSend(ep, d.msgs.next(4<<20), 0, 4<<20, "contig")
	if err != nil {
		return nil, err
	}
	m := d.ours.request()
	return append(requests, n, m), d.ours.do("srecv", m, ep, 100, "contig", "all")
}

// lostAmid kills it with messages, a stream and an answer in progress.
func (d *dialing) lostAmid() error {
	if err := d.connect(); err != nil {
		return err
	}
	if err := d.talk(8); err != nil {
		return err
	}
	requests, err := d.begin()
	if err != nil {
		return err
	}
	d.theirs.process.kill()
	if err := d.ours.lost(ep); err != nil {
		return err
	}
	for i, n := range requests {
		got, err := d.ours.wait(n, 0)
		if err != nil {
			return err
		}
		// The bytes of a stream may have been sent.
		if isStreamSend := i == 2; got.status == ucs.OK && !isStreamSend {
			return fmt.Errorf("operation %d toward a lost peer: success", i)
		}
	}
	return d.closeOurs()
}

// lostClosing stops the other side, closes, and kills it during the close.
func (d *dialing) lostClosing() error {
	if err := d.connect(); err != nil {
		return err
	}
	if err := d.talk(8); err != nil {
		return err
	}
	if err := d.theirs.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	n, err := d.ours.send(ep, d.msgs.next(4<<20), "contig", "sync")
	if err != nil {
		return err
	}
	closing := d.ours.request()
	if err := d.ours.do("close", closing, ep, "flush"); err != nil {
		return err
	}
	d.theirs.process.kill()
	for _, n := range []int{n, closing} {
		if _, err := d.ours.wait(n, 0); err != nil { // any status will do
			return err
		}
	}
	return nil
}

// TestNobodyListens: connecting without a listener reports an error.
func TestNobodyListens(t *testing.T) {
	eachDialing(t, dialingRoutes[:1], func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		nobodyListens(t, where, ours, theirs, weServe, over)
	})
}

func nobodyListens(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
	t.Helper()
	d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer"}, over)
	if err != nil {
		t.Fatal(err)
	}
	defer d.report(t)
	if err := d.server.do("unlisten"); err != nil {
		t.Fatal(err)
	}
	if err := d.dial(ep, "plain"); err != nil {
		t.Fatal(err)
	}
	status, err := d.client.failure(ep)
	if err != nil {
		t.Fatal(err)
	}
	if d.client == d.ours && !d.ours.isC() && status != ucs.ErrNotConnected {
		t.Errorf("nobody listens, and we are told %v", status)
	}
}
