//go:build linux

package main

import (
	"errors"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// ucpTest is a test over UCP: the objects that the threads of this side share. Each thread has a
// worker and an endpoint to the other side's worker of the same number, unless all threads share
// the first worker and endpoint.
type ucpTest struct {
	t *team
	p *params

	ctx       *ucp.Context
	memory    [2]*ucp.Memory // the messages of all threads, one after another
	workers   []*ucp.Worker
	endpoints []*ucp.Endpoint // one for each worker
	threads   []*ucpRunner
}

// newUCP makes the workers and connects them to the other side's.
func newUCP(t *team, p *params, counters []*counter) (setup, error) {
	u := &ucpTest{t: t, p: p}
	err := u.open()
	if err == nil {
		err = u.allocate()
	}
	if err == nil {
		for id, c := range counters {
			u.threads = append(u.threads, u.newRunner(id, c))
		}
		err = u.openMessages()
	}
	if err == nil {
		err = u.connect()
	}
	if err != nil {
		return nil, errors.Join(err, u.close())
	}
	return u, nil
}

func (u *ucpTest) open() error {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return err
	}
	params := ucp.ContextParams{
		Features:        ucpFeatures(u.p),
		MTWorkersShared: u.t.size > 1,
		PeerRelease:     ucp.PeerRelease(peerRelease(u.t.release())),
		Name:            "perftest",
	}
	if u.p.WaitMode == perfoob.WaitSleep || u.p.Flags&perfoob.FlagWakeup != 0 {
		params.Features |= ucp.FeatureWakeup
	}
	if u.ctx, err = ucp.NewContext(params, cfg); err != nil {
		return err
	}
	n := u.t.size
	if u.p.shared {
		n = 1
	}
	for range n {
		w, err := u.ctx.NewWorker(ucp.WorkerParams{ThreadMode: workerMode(u.p)})
		if err != nil {
			return err
		}
		u.workers = append(u.workers, w)
	}
	return nil
}

// workerMode is the thread mode of the workers.
func workerMode(p *params) ucs.ThreadMode {
	if p.shared {
		return ucs.ThreadModeMulti
	}
	return p.ThreadMode
}

// allocate allocates the messages with the library's allocator, as C's tool does
// (ucp_perf_test_alloc_mem in lib/libperf_memory.c).
func (u *ucpTest) allocate() error {
	flags := ucp.MemMapAllocate
	if u.p.Flags&perfoob.FlagMapNonblock != 0 {
		flags |= ucp.MemMapNonblock
	}
	for k := range u.memory {
		m, err := u.ctx.MemMap(ucp.MemMapParams{Length: u.t.size * messageRoom(u.p), Flags: flags, Name: "perftest"})
		if err != nil {
			return err
		}
		u.memory[k] = m
	}
	return nil
}

// Indices of ucpTest.memory.
const (
	sent = iota
	received
)

// messageRoom returns the size of a message's memory. An empty message has one byte, for the last
// message of a stream.
func messageRoom(p *params) int { return max(p.Extent(), 1) }

// message returns the part of memory k (sent or received) that belongs to thread id.
func (u *ucpTest) message(k, id int) []byte {
	n := messageRoom(u.p)
	return u.memory[k].Bytes()[id*n : (id+1)*n : (id+1)*n]
}

// newRunner prepares a thread's runner. Its buffers do not change during the test.
func (u *ucpTest) newRunner(id int, c *counter) *ucpRunner {
	p := u.p
	r := &ucpRunner{
		g: u.t.member(id), p: p, c: c,
		w:            u.workers[id%len(u.workers)],
		cmd:          p.Test.Command,
		probe:        p.Flags&perfoob.FlagTagUnexpProbe != 0,
		sleep:        p.WaitMode == perfoob.WaitSleep && !p.block,
		block:        p.block,
		passive:      p.Flags&perfoob.FlagOneSided != 0,
		tag:          firstTag,
		mask:         ucp.FullMask,
		sends:        newWindow(int(p.Window)),
		receives:     newWindow(int(p.Window)),
		spins:        spinRounds / int(p.Threads),
		sharedWorker: p.shared && p.Threads > 1,
	}
	r.poll = r.progress
	if p.shared {
		r.tag += ucp.Tag(id)
	}
	if p.Flags&perfoob.FlagTagWildcard != 0 {
		r.mask = 0
	}
	r.rma.on = isOneSided(p.Test.Command)
	sendMem, recvMem := u.message(sent, id), u.message(received, id)
	if p.Test.Type == perfoob.StreamUni {
		r.send.Flags |= ucp.OpMultiSend
		r.recv.Flags |= ucp.OpMultiSend
	}
	if p.Flags&perfoob.FlagPreregistered != 0 && !isAtomic(r.cmd) { // atomics take their operands during the call
		r.send.Memory = u.memory[sent]
	}
	r.ackSize = 1
	if p.SendType == perfoob.IOV {
		parts := pieces(sendMem, p)
		r.send.Buffer = ucp.IOV(parts...)
		r.ack = r.send
		r.ack.Buffer = ucp.IOV(parts[0])
		r.ackSize = len(parts[0])
	} else {
		r.sendBuf = sendMem[:p.MessageSize()]
		if isAtomic(r.cmd) && r.cmd != perfoob.CmdAdd {
			r.send.ReplyBuffer = r.sendBuf
		}
	}
	if p.RecvType == perfoob.IOV {
		r.recv.Buffer = ucp.IOV(pieces(recvMem, p)...)
		if r.cmd == perfoob.CmdStream {
			r.recv.StreamFlags = ucp.StreamRecvWaitAll
		}
	} else {
		r.recvBuf = recvMem[:p.MessageSize()]
	}
	r.ackBuf = recvMem
	if p.Test.Type == perfoob.StreamUni || p.SendType == perfoob.IOV || r.send.Memory != nil {
		r.sendParams = &r.send
	}
	if p.Test.Type == perfoob.StreamUni || p.RecvType == perfoob.IOV {
		r.recvParams = &r.recv
	}
	return r
}

// openMessages prepares the threads for active messages.
func (u *ucpTest) openMessages() error {
	for id, r := range u.threads {
		if err := r.openAM(u.message(received, id)); err != nil {
			return err
		}
	}
	return nil
}

// connect exchanges addresses and connects.
func (u *ucpTest) connect() error {
	own, err := u.info()
	if err != nil {
		return err
	}
	v, err := u.t.exchange(own, u.t.size*u.t.release().MaxInfo())
	if err != nil {
		return err
	}
	if err := agree(u.t, u.connectTo(v)); err != nil {
		return err
	}
	// Connect both sides now, not in the first stage.
	return u.settle(func(i int) (*ucp.Request, error) { return u.workers[i].Flush(nil) })
}

// info returns the information for the other side, for each thread: its worker's address and, in
// one-sided tests, the address and key of its receive buffer.
func (u *ucpTest) info() (b []byte, err error) {
	var m *ucp.Memory
	var key []byte
	if isOneSided(u.p.Test.Command) {
		m = u.memory[received]
		if key, err = m.PackRkey(); err != nil {
			return nil, err
		}
	}
	for id := range u.threads {
		i := perfoob.UCPInfo{Rkey: key}
		if i.Address, err = u.workers[id%len(u.workers)].Address(0); err != nil {
			return nil, err
		}
		if m != nil {
			i.RecvBuffer = m.Attr().Address + uint64(id*messageRoom(u.p))
		}
		b = i.Append(b)
	}
	return b, nil
}

func (u *ucpTest) connectTo(info []byte) error {
	peers, err := perfoob.ParseUCPInfos(info, u.t.size)
	if err != nil {
		return err
	}
	if err := sameSharing(peers, u.p.shared); err != nil {
		return err
	}
	for i, w := range u.workers {
		params := ucp.EndpointParams{Address: peers[i].Address}
		if u.p.Flags&perfoob.FlagErrHandling != 0 {
			params.ErrMode = ucp.ErrModePeer
		}
		ep, err := w.NewEndpoint(params)
		if err != nil {
			return err
		}
		u.endpoints = append(u.endpoints, ep)
	}
	for id, r := range u.threads {
		r.ep = u.endpoints[id%len(u.endpoints)]
		if err := r.openKey(&peers[id]); err != nil {
			return err
		}
	}
	return nil
}

// thread implements setup.
func (u *ucpTest) thread(id int) runner { return u.threads[id] }

// progress progresses all workers.
func (u *ucpTest) progress() (n int) {
	for _, w := range u.workers {
		n += w.Progress()
	}
	return n
}

// finish implements setup. Both sides close their endpoints between two barriers, so that neither
// is gone while the other still flushes.
func (u *ucpTest) finish() error {
	if err := u.t.barrier(u.progress); err != nil {
		return err
	}
	if err := u.closeKeys(); err != nil {
		return err
	}
	if err := u.settle(func(i int) (*ucp.Request, error) { return u.endpoints[i].CloseAsync(nil) }); err != nil {
		return err
	}
	return u.t.barrier(u.progress)
}

// settle starts an operation on each worker and progresses all workers until all operations are
// done. Handling the workers one after another could deadlock, because the other side may wait for
// any of them.
func (u *ucpTest) settle(start func(i int) (*ucp.Request, error)) error {
	var requests []*ucp.Request
	for i := range u.workers {
		req, err := start(i)
		if err != nil {
			return err
		}
		requests = append(requests, req)
	}
	for _, req := range requests {
		for idle := 0; !req.Done(); idle++ {
			if u.progress() > 0 {
				idle = 0
			}
			if idle < spinRounds {
				continue
			}
			if err := u.t.alive(); err != nil {
				return err
			}
			u.threads[0].c.giveWay()
		}
		err := req.Err()
		req.Free()
		if err != nil && !errors.Is(err, ucs.ErrCanceled) { // canceled if the other side has closed first
			return err
		}
	}
	return nil
}

func (u *ucpTest) closeKeys() (err error) {
	for _, r := range u.threads {
		err = errors.Join(err, r.closeKey())
	}
	return err
}

// close implements setup.
func (u *ucpTest) close() error {
	err := u.closeKeys()
	for _, w := range u.workers {
		err = errors.Join(err, w.Close())
	}
	for _, m := range u.memory {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	if u.ctx != nil {
		err = errors.Join(err, u.ctx.Close())
	}
	return err
}
