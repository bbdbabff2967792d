//go:build simulate

package simnet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// One-sided access. Each worker has a region that the others access: shared words for additions, two
// words for each goroutine of the program, a part that is only read, and a slice for each goroutine
// that puts.

// Offsets in a region.
const (
	wordFetch64 = 0
	wordSum64   = 8
	wordFetch32 = 16
	wordSum32   = 20
	wordsOwn    = 32
	ownWords    = 16 // bytes for each goroutine: a word of 64 bits, and one of 32
)

// rmaState is the region of a worker.
type rmaState struct {
	mem    *ucp.Memory
	b      []byte
	addr   uint64
	packed []byte

	constAt, constLen int
	slices            []span // by goroutine
	size              int

	sums    [2]uint64 // of the additions, of 64 and 32 bits
	fetched [2][]fetchedAdd
	unknown [2]bool // an addition may not have taken effect
}

type span struct{ at, n int }

type fetchedAdd struct{ old, v uint64 }

// wordState is what a goroutine knows of its words in a region.
type wordState struct {
	value  [2]uint64
	busy   bool // an operation is in flight
	fenced bool // no operation without a result since the last fence
}

// sliceState is what a goroutine knows of its slice of a region.
type sliceState struct {
	mirror []byte
	dirty  []span // puts and gets since the last flush or fence
	count  int    // number of puts and gets
	flush  bool   // there were puts or atomic operations
}

// touch records that an operation on a part of the slice is about to start.
func (s *sliceState) touch(at span) {
	s.dirty = append(s.dirty, at)
	s.count++
}

// layout computes the places in the regions.
func (l *load) layout() {
	goroutines := 0
	for _, wk := range l.workers {
		goroutines += len(wk.all)
	}
	for _, wk := range l.workers {
		wk.rma.slices = make([]span, goroutines)
		wk.rma.size = wordsOwn + goroutines*ownWords
		wk.rma.constAt = wk.rma.size
	}
	for _, wk := range l.workers {
		for _, g := range wk.all {
			g.words = make([]wordState, len(l.workers))
			g.slices = make([]sliceState, len(l.workers))
			for k := range g.steps {
				s := &g.steps[k]
				if s.Kind == "get" && s.How == 0 {
					r := &l.workers[s.Peer].rma
					r.constLen = max(r.constLen, s.Off+s.Size)
				}
			}
		}
	}
	for _, wk := range l.workers {
		wk.rma.size += (wk.rma.constLen + guard + 7) &^ 7
	}
	for _, wk := range l.workers {
		for _, g := range wk.all {
			need := make([]int, len(l.workers))
			for k := range g.steps {
				s := &g.steps[k]
				if s.Kind == "put" || s.Kind == "get" && s.How != 0 {
					need[s.Peer] = max(need[s.Peer], s.Off+s.Size*s.N)
				}
			}
			for t, n := range need {
				r := &l.workers[t].rma
				r.slices[g.number] = span{r.size, n}
				r.size += (n + guard + 7) &^ 7
				g.slices[t].mirror = make([]byte, n)
				fillCanary(g.slices[t].mirror)
			}
		}
	}
}

// open registers the region.
func (r *rmaState) open(wk *worker) {
	l := wk.l
	var err error
	if wk.number%2 == 0 || l.lossy { // a killed process does not free what it has allocated
		r.b = make([]byte, r.size)
		r.mem, err = wk.proc.ctx.Register(r.b, 0)
	} else {
		r.mem, err = wk.proc.ctx.Alloc(r.size, 0)
	}
	l.must(err, "mapping memory")
	r.b = r.mem.Bytes()
	fillCanary(r.b)
	clear(r.b[:r.constAt])
	fillStream(r.b[r.constAt:][:r.constLen], r.constPattern(wk))
	r.addr = r.mem.Attr().Address
	r.packed, err = r.mem.PackRkey()
	l.must(err, "PackRkey")
}

func (r *rmaState) constPattern(wk *worker) uint64 { return uint64(wk.number) * 50021 }

// close checks the region, when nobody accesses it any more, and unmaps it.
func (r *rmaState) close(wk *worker) {
	j := wk.l.j
	b := r.b
	for k, bits := range []int{64, 32} {
		fetch, sum := binary.NativeEndian.Uint64(b[wordFetch64:]), binary.NativeEndian.Uint64(b[wordSum64:])
		mask := ^uint64(0)
		if k == 1 {
			fetch, sum = uint64(binary.NativeEndian.Uint32(b[wordFetch32:])), uint64(binary.NativeEndian.Uint32(b[wordSum32:]))
			mask = 1<<32 - 1
		}
		if r.unknown[k] || wk.l.lossy {
			continue
		}
		if sum != r.sums[k]&mask {
			j.fail("the sum of %d bits of worker %d is %d, not %d", bits, wk.number, sum, r.sums[k])
		}
		slices.SortFunc(r.fetched[k], func(a, b fetchedAdd) int { return cmp.Compare(a.old, b.old) })
		at := uint64(0)
		for _, f := range r.fetched[k] {
			if f.old != at {
				j.fail("an addition of %d bits at worker %d found %d, not %d", bits, wk.number, f.old, at)
			}
			at = f.old + f.v
		}
		if fetch != at {
			j.fail("the word of %d bits for fetching additions of worker %d is %d, not %d", bits, wk.number, fetch, at)
		}
	}
	if k := mismatchStream(b[r.constAt:][:r.constLen], r.constPattern(wk)); k >= 0 {
		j.fail("byte %d of the region of worker %d, which is only read, was changed", k, wk.number)
	}
	for n, s := range r.slices {
		if k := notCanary(b[s.at+s.n:][:guard]); s.at > 0 && k >= 0 {
			j.fail("byte %d behind the slice of goroutine %d at worker %d was changed", k, n, wk.number)
		}
	}
	wk.l.must(r.mem.Close(), "Memory.Close")
}

// rkey returns the key of the region of a worker.
func (g *goroutine) rkey(peer int) (*link, *ucp.Rkey) {
	n := g.link(peer)
	if n == nil {
		return nil, nil
	}
	if n.key == nil {
		n.making = true
		defer func() { n.making = false }()
		k, err := n.ep.UnpackRkey(g.wk.l.workers[peer].rma.packed)
		if err != nil && (n.ep.Err() != nil || g.wk.isBroken(peer)) {
			return n, nil
		}
		g.wk.l.must(err, "UnpackRkey")
		n.key = k
	}
	return n, n.key
}

// put writes to the slice of the goroutine.
func (g *goroutine) put(s *Step) {
	l := g.wk.l
	for k := range s.N {
		n, key := g.rkey(s.Peer)
		if key == nil || !n.settled() {
			return
		}
		target := &l.workers[s.Peer].rma
		at := span{s.Off + k*s.Size, s.Size}
		state := &g.slices[s.Peer]
		if slices.ContainsFunc(state.dirty, func(d span) bool { return d.at < at.at+at.n && at.at < d.at+d.n }) {
			l.must(g.wk.w.Fence(), "Fence")
			state.dirty = state.dirty[:0]
		}
		state.touch(at)
		state.flush = true
		id := s.ID + k
		o := &op{g: g, s: s, buf: g.buffer(s.Size), begin: l.j.tick(), m: &message{id: id, s: s, to: s.Peer, size: s.Size}}
		o.m.sender = o
		fill(o.buf, id)
		before := slices.Clone(state.mirror[at.at:][:at.n])
		copy(state.mirror[at.at:], o.buf)
		unsent := func() { copy(state.mirror[at.at:], before) }
		raddr := target.addr + uint64(target.slices[g.number].at+at.at)
		if s.blocks() {
			ctx, cancel := g.deadline(s)
			err := n.ep.PutWait(ctx, o.buf, raddr, key)
			cancel()
			o.m.settled = true
			g.sendEnded(o, err)
			if o.m.unsent {
				unsent()
			}
			continue
		}
		o.done = func(o *op, err error) {
			if k := mismatch(o.buf, id); k >= 0 {
				l.j.fail("the buffer of %s was changed at byte %d", s, k)
			}
			if errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 && o.r == nil {
				unsent()
				return
			}
			l.j.expect(o, err, "a put")
		}
		p := g.options(s, o)
		if o.callback {
			p.OnSend = onSend
		}
		g.mapped(o, p)
		buf := g.content(s, o, p)
		r, err := n.ep.Put(buf, raddr, key, plain(s, p))
		g.submit(o, r, err)
	}
}

// get reads from the part that is only read, or from the slice of the goroutine.
func (g *goroutine) get(s *Step) {
	l := g.wk.l
	if s.How != 0 && len(g.slices[s.Peer].dirty) > 0 {
		return
	}
	for range s.N {
		n, key := g.rkey(s.Peer)
		if key == nil || s.How != 0 && (!n.settled() || g.wk.isBroken(s.Peer)) {
			return
		}
		target := &l.workers[s.Peer].rma
		o := &op{g: g, s: s, buf: g.buffer(s.Size), begin: l.j.tick()}
		raddr := target.addr + uint64(target.constAt+s.Off)
		wrong := func() int { return mismatchStream(o.buf, target.constPattern(l.workers[s.Peer])+uint64(s.Off)) }
		if s.How != 0 {
			raddr = target.addr + uint64(target.slices[g.number].at+s.Off)
			want := slices.Clone(g.slices[s.Peer].mirror[s.Off:][:s.Size])
			// A later put must not meet this get.
			g.slices[s.Peer].touch(span{s.Off, s.Size})
			wrong = func() int {
				for k := range want {
					if want[k] != o.buf[k] {
						return k
					}
				}
				return -1
			}
		}
		o.done = func(o *op, err error) {
			if errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 && o.r == nil {
				return
			}
			if l.j.expect(o, err, "a get"); err == nil {
				if k := wrong(); k >= 0 && !(s.How != 0 && g.wk.isBroken(s.Peer)) && !g.wk.proc.lies && !l.workers[s.Peer].proc.lies {
					l.j.fail("byte %d of %s is wrong", k, s)
				}
			}
		}
		if s.blocks() {
			ctx, cancel := g.deadline(s)
			err := n.ep.GetWait(ctx, o.buf, raddr, key)
			cancel()
			o.over = true
			if err != nil && !errors.Is(err, ucs.ErrCanceled) {
				l.j.expect(o, err, "GetWait")
			} else if err == nil {
				o.done(o, err)
			}
			fillCanary(o.buf)
			continue
		}
		p := g.options(s, o)
		if o.callback {
			p.OnSend = onSend
		}
		g.mapped(o, p)
		buf := g.content(s, o, p)
		r, err := n.ep.Get(buf, raddr, key, plain(s, p))
		g.submit(o, r, err)
	}
}

// flush flushes an endpoint, and checks what the puts before it have written.
func (g *goroutine) flush(s *Step) {
	n := g.link(s.Peer)
	if n == nil {
		return
	}
	checks := g.flushed(s.Peer)
	if s.blocks() {
		ctx, cancel := g.deadline(s)
		defer cancel()
		err := n.ep.FlushWait(ctx)
		if err == nil {
			checks()
		} else if !errors.Is(err, context.DeadlineExceeded) && g.wk.l.faultless() {
			g.wk.l.j.fail("FlushWait: %v", err)
		}
		return
	}
	o := &op{g: g, s: s, begin: g.wk.l.j.tick()}
	o.done = func(o *op, err error) {
		if errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 && o.r == nil {
			return
		}
		if g.wk.l.j.expect(o, err, "a flush"); err == nil {
			checks()
		}
	}
	p := g.options(s, o)
	if o.callback {
		p.OnSend = onSend
	}
	r, err := n.ep.Flush(p)
	g.submit(o, r, err)
}

// flushWorker flushes all endpoints.
func (g *goroutine) flushWorker(s *Step) {
	var all []func()
	for k := range g.wk.links {
		all = append(all, g.flushed(k))
	}
	o := &op{g: g, s: s, begin: g.wk.l.j.tick()}
	o.done = func(o *op, err error) {
		if g.wk.l.j.expect(o, err, "a flush of a worker"); err == nil {
			for _, check := range all {
				check()
			}
		}
	}
	p := g.options(s, o)
	if o.callback {
		p.OnSend = onSend
	}
	r, err := g.wk.w.Flush(p)
	g.submit(o, r, err)
}

// flushed returns the check of a slice for the end of a flush that is about to be started.
func (g *goroutine) flushed(peer int) func() {
	state := &g.slices[peer]
	count := state.count
	settled := g.wk.links[peer].settled()
	return func() {
		if state.count != count || !settled || g.wk.isBroken(peer) {
			return
		}
		state.dirty = state.dirty[:0]
		target := &g.wk.l.workers[peer].rma
		at := target.slices[g.number]
		for k, b := range target.b[at.at:][:at.n] {
			if b != state.mirror[k] {
				g.wk.l.j.fail("after a flush, byte %d of the slice of goroutine %d at worker %d is wrong", k, g.number, peer)
				return
			}
		}
	}
}

// flushAll flushes what the goroutine has put.
func (g *goroutine) flushAll() {
	if g.wk.l.j.err != nil {
		return
	}
	for k := range g.slices {
		if g.slices[k].flush {
			g.flush(&Step{Kind: "flush", Peer: k})
		}
	}
}

// fence orders one-sided operations.
func (g *goroutine) fence(s *Step) {
	g.wk.l.must(g.wk.w.Fence(), "Fence")
	for k := range g.slices {
		g.words[k].fenced = true
	}
}

// word returns the operand of an atomic operation of a size, and its index in the tables.
func (s *Step) word(v uint64) (b []byte, k int) {
	if s.Flags&flagWord32 != 0 {
		return binary.NativeEndian.AppendUint32(nil, uint32(v)), 1
	}
	return binary.NativeEndian.AppendUint64(nil, v), 0
}

func value(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// atomicAdd adds to the shared sum, without a result.
func (g *goroutine) atomicAdd(s *Step) {
	l := g.wk.l
	for i := range s.N {
		n, key := g.rkey(s.Peer)
		if key == nil {
			return
		}
		target := &l.workers[s.Peer].rma
		v := uint64(s.ID + i + 1)
		operand, k := s.word(v)
		o := &op{g: g, s: s, buf: g.buffer(len(operand)), begin: l.j.tick()}
		copy(o.buf, operand)
		g.slices[s.Peer].flush = true
		target.sums[k] += v
		o.done = func(o *op, err error) {
			if errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 && o.r == nil {
				target.sums[k] -= v
				return
			}
			l.j.expect(o, err, "an atomic addition")
		}
		p := g.options(s, o)
		if o.callback {
			p.OnSend = onSend
		}
		r, err := n.ep.Atomic(ucp.AtomicAdd, o.buf, target.addr+[]uint64{wordSum64, wordSum32}[k], key, p)
		g.submit(o, r, err)
	}
}

// atomicFetchAdd adds to the shared word, with a result.
func (g *goroutine) atomicFetchAdd(s *Step) {
	l := g.wk.l
	for i := range s.N {
		n, key := g.rkey(s.Peer)
		if key == nil {
			return
		}
		target := &l.workers[s.Peer].rma
		v := uint64(s.ID%100 + i + 1)
		operand, k := s.word(v)
		o := &op{g: g, s: s, buf: g.buffer(len(operand)), head: g.buffer(len(operand)), begin: l.j.tick()}
		copy(o.buf, operand)
		raddr := target.addr + []uint64{wordFetch64, wordFetch32}[k]
		o.done = func(o *op, err error) {
			if errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 && o.r == nil {
				return
			}
			if l.j.expect(o, err, "a fetching addition"); err == nil {
				target.fetched[k] = append(target.fetched[k], fetchedAdd{value(o.head), v})
			} else {
				target.unknown[k] = true
			}
		}
		if s.blocks() {
			ctx, cancel := g.deadline(s)
			err := n.ep.AtomicWait(ctx, ucp.AtomicAdd, o.buf, raddr, key, o.head)
			cancel()
			o.over = true
			switch {
			case err == nil:
				o.done(o, nil)
			case errors.Is(err, ucs.ErrCanceled):
			case errors.Is(err, context.DeadlineExceeded):
				if notCanary(o.head) >= 0 {
					l.j.fail("%s, whose wait has ended, has stored a value", s)
				}
				target.unknown[k] = true
			default:
				l.j.expect(o, err, "AtomicWait")
			}
			fillCanary(o.buf)
			fillCanary(o.head)
			continue
		}
		p := g.options(s, o)
		if o.callback {
			p.OnSend = onSend
		}
		p.ReplyBuffer = o.head
		r, err := n.ep.Atomic(ucp.AtomicAdd, o.buf, raddr, key, p)
		g.submit(o, r, err)
	}
}

// atomicOwn changes a word that only this goroutine uses.
func (g *goroutine) atomicOwn(s *Step) {
	l := g.wk.l
	n, key := g.rkey(s.Peer)
	target := &l.workers[s.Peer].rma
	state := &g.words[s.Peer]
	if state.busy || key == nil || !n.settled() || g.wk.isBroken(s.Peer) {
		return
	}
	op64 := ucp.AtomicOp(s.Class % 6)
	x := uint64(s.ID)*0x9e3779b97f4a7c15 + 1
	operand, k := s.word(x)
	x = value(operand)
	fetch := s.How != 0 || op64 == ucp.AtomicSwap || op64 == ucp.AtomicCompareSwap
	o := &op{g: g, s: s, buf: g.buffer(len(operand)), begin: l.j.tick()}
	old := state.value[k]
	next := old
	swap := uint64(0)
	switch op64 {
	case ucp.AtomicAdd:
		next = old + x
	case ucp.AtomicSwap:
		next = x
	case ucp.AtomicCompareSwap:
		swap = x ^ 0xffff
		if s.How%2 == 0 {
			operand, _ = s.word(old)
			next = swap
		} else if x == old {
			next = swap
		}
	case ucp.AtomicAnd:
		next = old & x
	case ucp.AtomicOr:
		next = old | x
	case ucp.AtomicXor:
		next = old ^ x
	}
	if k == 1 {
		next &= 1<<32 - 1
	}
	copy(o.buf, operand)
	if !state.fenced {
		l.must(g.wk.w.Fence(), "Fence")
	}
	g.slices[s.Peer].flush = true
	state.fenced = fetch
	state.busy = true
	o.done = func(o *op, err error) {
		state.busy = err != nil && !g.wk.l.faultless() // its value is not known then
		if errors.Is(err, ucs.ErrNoResource) && s.Flags&flagForce != 0 && o.r == nil {
			return
		}
		if l.j.expect(o, err, "an atomic operation"); err != nil {
			return
		}
		if fetch && value(o.head) != old && !g.wk.isBroken(s.Peer) {
			l.j.fail("%s found %#x, not %#x", s, value(o.head), old)
		}
		state.value[k] = next
	}
	p := g.options(s, o)
	if o.callback {
		p.OnSend = onSend
	}
	if fetch {
		reply, _ := s.word(swap)
		o.head = g.buffer(len(reply))
		copy(o.head, reply)
		p.ReplyBuffer = o.head
	}
	r, err := n.ep.Atomic(op64, o.buf, target.addr+uint64(wordsOwn+g.number*ownWords+8*k), key, p)
	g.submit(o, r, err)
}
