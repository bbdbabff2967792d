//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// uctRunner runs tests of one transport on one device, without UCP. Its operations are in
// uct_send.go and uct_remote.go, its loops in uct_loops.go.
type uctRunner struct {
	g group
	p *params
	c *counter

	poll  func() int // the method progress, for barriers
	w     *uct.Worker
	md    uct.MemoryDomain
	iface uct.Iface
	ep    uct.Endpoint
	rma   uct.RMA    // ep as RMA; nil if the transport has no RMA
	amo   uct.Atomic // ep as Atomic; nil if the transport has no atomics
	rkey  *uct.Rkey
	raddr uint64 // address of the peer's receive buffer

	sendMem, recvMem memory
	sendBuf, recvBuf []byte
	iov              []uct.IOV
	post             func(sn, prev uint8, c *uct.Completion) error
	passive          bool // make no progress while waiting for the other side's accesses
	windowed         bool // operations complete later and are counted in inflight
	inflight         uct.Completion
	window           int
	flushed          flushed
	length           int    // bytes of a message
	snAt             int    // offset of the sequence number in a ping-pong's put
	old32            uint32 // results of atomic operations
	old64            uint64

	lastSN uint8 // sequence number of the last active message
	posts  uint  // number of accepted sends
	idle   int   // consecutive rounds without progress
	err    error // why the endpoint failed
}

// newUCT opens the transport and connects it to the other side's.
func newUCT(g group, p *params, c *counter) (setup, error) {
	r := &uctRunner{g: g, p: p, c: c, window: int(p.Window), length: p.MessageSize(), passive: p.Flags&perfoob.FlagOneSided != 0}
	r.poll = r.progress
	if err := r.setUp(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// setUp follows the order of uct_perf_setup (lib/libperf.c), on which both sides rely.
func (r *uctRunner) setUp() error {
	err := r.open()
	if err == nil {
		err = checkTransport(r.p, r.iface.Attr())
	}
	if err := agree(r.g, err); err != nil {
		return err
	}
	if err := r.allocate(); err != nil {
		return err
	}
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.connect(); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	return r.g.barrier(r.poll)
}

// open opens the worker, the memory domain and the interface.
func (r *uctRunner) open() error {
	cfg, err := config.Read("", "")
	if err != nil {
		return err
	}
	if r.w, err = uct.NewWorker(); err != nil {
		return err
	}
	if r.md, err = findDomain(cfg, r.p.Transport, r.p.Device); err != nil {
		return err
	}
	r.iface, err = r.md.OpenIface(r.w, uct.IfaceParams{
		Transport:   r.p.Transport,
		Device:      r.p.Device,
		PeerRelease: peerRelease(r.g.release()),
		OnError:     func(_ uct.Endpoint, _ any, err error) { r.err = fmt.Errorf("endpoint: %w", err) },
	}, cfg)
	return err
}

// peerRelease returns the other side's release. A side that uses a release's form of the protocol
// is that release, or this library configured for it.
func peerRelease(r perfoob.Release) uct.PeerRelease {
	if r == perfoob.Release113 {
		return uct.PeerRelease113
	}
	return uct.PeerRelease122
}

// connect exchanges addresses and connects the endpoint.
func (r *uctRunner) connect() error {
	attr := r.iface.Attr()
	pairwise := attr.Flags.Has(uct.IfaceConnectToEP)
	own := perfoob.UCTInfo{
		DeviceAddr: r.iface.DeviceAddress(),
		IfaceAddr:  r.iface.Address(),
		RecvBuffer: addressOf(r.recvBuf),
	}
	var err error
	if r.recvMem.handle != nil {
		if own.Rkey, err = r.md.AppendKey(nil, r.recvMem.handle); err != nil {
			return err
		}
	}
	if pairwise {
		if r.ep, err = r.iface.NewEndpoint(uct.EndpointParams{}); err != nil {
			return err
		}
		if own.EpAddr, err = r.ep.(uct.Paired).Address(); err != nil {
			return err
		}
	}
	v, err := r.g.exchange(own.Append(nil), r.g.release().MaxInfo())
	if err != nil {
		return err
	}
	peer, err := perfoob.ParseUCTInfo(v)
	if err != nil {
		return err
	}
	if err := r.iface.Reachable(uct.ReachableParams{DeviceAddr: peer.DeviceAddr, IfaceAddr: peer.IfaceAddr}); err != nil {
		return err
	}
	if r.md.Attr().Flags&uct.MDFlagNeedRkey != 0 {
		if r.rkey, err = r.md.UnpackRkey(peer.Rkey); err != nil {
			return err
		}
	}
	r.raddr = peer.RecvBuffer
	if pairwise {
		err = r.ep.(uct.Paired).ConnectToEP(peer.DeviceAddr, peer.IfaceAddr, peer.EpAddr)
	} else {
		r.ep, err = r.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: peer.DeviceAddr, IfaceAddr: peer.IfaceAddr})
	}
	if err != nil {
		return err
	}
	r.rma, _ = r.ep.(uct.RMA)
	r.amo, _ = r.ep.(uct.Atomic)
	return nil
}

// flush waits until all operations are complete at the peer.
func (r *uctRunner) flush() error {
	c := &r.flushed
	*c = flushed{Completion: uct.Completion{Owner: c, Count: 1}}
	for {
		switch err := r.ep.Flush(uct.FlushRemote, &c.Completion); err {
		case ucs.ErrNoResource:
		case ucs.InProgress:
			for !c.done {
				if err := r.advance(); err != nil {
					return err
				}
			}
			return c.Err
		default:
			return err
		}
		if err := r.advance(); err != nil {
			return err
		}
	}
}

// flushed is an outstanding flush.
type flushed struct {
	uct.Completion
	done bool
}

// Completed implements uct.CompletionOwner.
func (f *flushed) Completed(*uct.Completion) { f.done = true }

// advance progresses the worker.
func (r *uctRunner) advance() error {
	if r.w.Progress() > 0 {
		r.idle = 0
		r.c.worked()
		return nil
	}
	if r.idle++; r.idle < spinRounds {
		return nil
	}
	return r.idled()
}

// serve is advance for a thread that waits for the other side's accesses.
func (r *uctRunner) serve() error {
	if !r.passive {
		return r.advance()
	}
	r.c.worked()
	if r.idle++; r.idle < spinRounds {
		return nil
	}
	return r.idled()
}

// idled checks for errors that end the wait, and lets other goroutines and processes run.
//
//go:noinline
func (r *uctRunner) idled() error {
	if r.err != nil {
		return r.err
	}
	if r.idle%checkRounds == 0 {
		if err := r.g.alive(); err != nil {
			return err
		}
	}
	if r.idle%yieldRounds == 0 {
		r.c.giveWay()
	}
	return nil
}

// thread implements setup. A UCT test has one thread.
func (r *uctRunner) thread(int) runner { return r }

// progress implements runner.
func (r *uctRunner) progress() int { return r.w.Progress() }

// finish implements setup. The barrier serves the other side until it arrives too.
func (r *uctRunner) finish() error { return r.g.barrier(r.poll) }

// close implements setup.
func (r *uctRunner) close() error {
	var err error
	if r.ep != nil {
		r.ep.PendingPurge(func(*uct.Pending) {})
		r.ep.Close()
	}
	if r.rkey != nil {
		err = r.md.ReleaseRkey(r.rkey)
	}
	if r.iface != nil {
		err = errors.Join(err, r.iface.Close())
	}
	if r.md != nil {
		err = errors.Join(err, r.sendMem.free(r.md), r.recvMem.free(r.md), r.md.Close())
	}
	if r.w != nil {
		err = errors.Join(err, r.w.Close())
	}
	return err
}
