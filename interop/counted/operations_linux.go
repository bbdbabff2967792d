package main

import (
	"github.com/ucx-go/ucx/ucp"
)

// operation is what is counted. The worker from begins it, the other one is its peer.
type operation struct {
	features ucp.Features
	run      func(p *pair, from int)
}

const (
	messages = ucp.FeatureTag | ucp.FeatureAM | ucp.FeatureStream
	accesses = messages | ucp.FeatureRMA | ucp.FeatureAMO64
)

var operations = map[string]operation{
	"tag":     {messages, (*pair).tag},
	"tagsync": {messages, (*pair).tagSync},
	"am":      {messages, (*pair).am},
	"amhdr":   {messages, (*pair).amHeader},
	"stream":  {messages, (*pair).stream},
	"put":     {accesses, (*pair).put},
	"get":     {accesses, (*pair).get},
	"fadd":    {accesses, (*pair).fetchAdd},
	"probe":   {messages, (*pair).probe},
	"idle":    {messages, (*pair).idle},

	// C's program has none of these.
	"tagwait":  {messages, (*pair).tagWait},
	"cancel":   {messages, (*pair).cancel},
	"done":     {messages, (*pair).done},
	"endpoint": {messages, (*pair).endpoint},
}

// tag sends a message to a posted receive.
func (p *pair) tag(from int) {
	r, err := p.workers[1-from].TagRecv(1, ucp.FullMask, p.in, nil)
	check(err)
	s, err := p.ends[from].TagSend(1, p.out, nil)
	check(err)
	p.wait(r, 1-from)
	p.wait(s, from)
}

// tagSync does the same with a synchronous send, which the receiver answers.
func (p *pair) tagSync(from int) {
	r, err := p.workers[1-from].TagRecv(1, ucp.FullMask, p.in, nil)
	check(err)
	s, err := p.ends[from].TagSendSync(1, p.out, nil)
	check(err)
	p.wait(r, 1-from)
	p.wait(s, from)
}

// probe sends a message that no receive waits for, finds it, takes it out and receives it.
func (p *pair) probe(from int) {
	s, err := p.ends[from].TagSend(1, p.out, nil)
	check(err)
	var m *ucp.TagMessage
	for found := false; !found; {
		p.progress(1 - from)
		if m, found = p.workers[1-from].TagTake(1, ucp.FullMask); !found {
			p.progress(from)
		}
	}
	r, err := m.Recv(p.in, nil)
	check(err)
	p.wait(r, 1-from)
	p.wait(s, from)
}

// onMessage is the handler of the active messages.
func (p *pair) onMessage(m *ucp.AMMessage) (err error) {
	p.arrived = true
	if m.Offered() {
		p.fetch, err = m.Recv(p.in, nil)
	}
	return err
}

// am sends an active message without a header.
func (p *pair) am(from int) { p.sendAM(from, nil) }

// amHeader sends one with a header.
func (p *pair) amHeader(from int) { p.sendAM(from, p.header) }

func (p *pair) sendAM(from int, header []byte) {
	p.arrived, p.fetch = false, nil
	s, err := p.ends[from].AMSend(amID, header, p.out, nil)
	check(err)
	for !p.arrived {
		p.progress(1 - from)
		if !p.arrived {
			p.progress(from)
		}
	}
	p.wait(p.fetch, 1-from)
	p.wait(s, from)
}

// stream sends bytes and receives all of them.
func (p *pair) stream(from int) {
	s, err := p.ends[from].StreamSend(p.out, nil)
	check(err)
	_, r, err := p.ends[1-from].StreamRecv(p.in, &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll})
	check(err)
	p.wait(r, 1-from)
	p.wait(s, from)
}

// put writes to the peer's memory, and flushes.
func (p *pair) put(from int) {
	s, err := p.ends[from].Put(p.out, p.addr, p.keys[from], nil)
	check(err)
	f, err := p.ends[from].Flush(nil)
	check(err)
	p.wait(f, from)
	p.wait(s, from)
}

// get reads the peer's memory.
func (p *pair) get(from int) {
	r, err := p.ends[from].Get(p.in, p.addr, p.keys[from], nil)
	check(err)
	p.wait(r, from)
}

// fetchAdd adds to a word of the peer's memory and gets its previous value.
func (p *pair) fetchAdd(from int) {
	r, err := p.ends[from].Atomic(ucp.AtomicAdd, p.words, p.addr, p.keys[from], &ucp.RequestParams{ReplyBuffer: p.old})
	check(err)
	p.wait(r, from)
}

// idle is a round in which there is nothing to do.
func (p *pair) idle(from int) { p.progress(1 - from) }

// tagWait is tag by the calls that wait.
func (p *pair) tagWait(from int) {
	check(p.ends[from].TagSendWait(p.ctx, 1, p.out))
	_, err := p.workers[1-from].TagRecvWait(p.ctx, 1, ucp.FullMask, p.in)
	check(err)
}

// cancel posts a receive and cancels it.
func (p *pair) cancel(from int) {
	r, err := p.workers[from].TagRecv(1, ucp.FullMask, p.in, nil)
	check(err)
	p.workers[from].Cancel(r)
	for !r.Done() {
		p.progress(from)
	}
	r.Free()
}

// done sends a message with a request that is done when it is returned. drain receives it.
func (p *pair) done(from int) {
	s, err := p.ends[from].TagSend(1, p.out, &ucp.RequestParams{Flags: ucp.OpNoImmediate})
	check(err)
	p.wait(s, from)
	p.drain(from)
}

// drain receives the message of done. It is not counted.
//
//go:noinline
func (p *pair) drain(from int) {
	r, err := p.workers[1-from].TagRecv(1, ucp.FullMask, p.in, nil)
	check(err)
	p.wait(r, 1-from)
}

// endpoint makes another endpoint to the peer and closes it.
func (p *pair) endpoint(from int) {
	ep, err := p.workers[from].NewEndpoint(ucp.EndpointParams{Address: p.address[from]})
	check(err)
	r, err := ep.CloseAsync(nil)
	check(err)
	p.wait(r, from)
}
