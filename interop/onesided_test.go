//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// The operations here are one-sided: from accesses memory of to, which only makes progress.

// region is memory of one peer with a key that the other has unpacked, under the same number on
// both sides.
type region struct {
	from, to *peer
	number   int
	addr     uint64
}

// How memory is mapped: allocated by the program, or by UCX, so that processes on the machine can
// access it directly.
const (
	own       = "own"
	allocated = "new"
)

// on makes an operation of one that accesses a kind of memory.
func on(kind string, run func(from, to *peer, msgs *messages, size int, kind string) error) operationFunc {
	return func(from, to *peer, msgs *messages, size int) error { return run(from, to, msgs, size, kind) }
}

// open makes to map memory, filled with the message of seed, or with filler bytes if seed is 0, and
// from unpack its key.
func open(from, to *peer, number, size int, seed uint64, kind string) (*region, error) {
	values, err := to.command("map", number, size, seed, kind)
	if err != nil {
		return nil, err
	}
	if len(values) != 2 {
		return nil, fmt.Errorf("%s: map reply %q", to.name, values)
	}
	g := &region{from: from, to: to, number: number}
	if g.addr, err = strconv.ParseUint(values[0], 0, 64); err != nil {
		return nil, err
	}
	if err := from.do("unpack", number, ep, values[1]); err != nil {
		return nil, err
	}
	return g, nil
}

// close releases the key and the memory.
func (g *region) close() error {
	return errors.Join(g.from.do("release", g.number), g.to.do("unmap", g.number))
}

// put starts a put of a message at an offset.
func (g *region) put(off int, m message) (int, error) {
	n := g.from.request()
	return n, g.from.do("put", n, ep, g.number, g.addr+uint64(off), m.size, m.seed)
}

// get starts a get of size bytes from an offset.
func (g *region) get(off, size int) (int, error) {
	n := g.from.request()
	return n, g.from.do("get", n, ep, g.number, g.addr+uint64(off), size)
}

// got waits for a get of the message that seed selects.
func (g *region) got(request int, m message) error {
	r, err := g.from.wait(request, m.seed)
	switch {
	case err != nil:
		return err
	case r.status != ucs.OK:
		return g.from.statusError("get", r.status)
	case r.length != m.size || r.verdict != "same":
		return fmt.Errorf("%s: got %d bytes of %d: %s", g.from.name, r.length, m.size, r.verdict)
	}
	return nil
}

// check compares the memory with a message.
func (g *region) check(m message) error {
	values, err := g.to.command("check", g.number, m.seed, m.size)
	if err == nil && (len(values) != 1 || values[0] != "same") {
		err = fmt.Errorf("%s: memory after a put: %q", g.to.name, values)
	}
	return err
}

// flush waits for a flush of an endpoint or the worker.
func (p *peer) flush(what any) error {
	n := p.request()
	if err := p.do("flush", n, what); err != nil {
		return err
	}
	return p.finish(n)
}

// memorySize returns the size of a mapping for a message: an empty mapping is not possible.
func memorySize(size int) int { return max(size, 1) }

// putting writes a message and flushes.
func putting(from, to *peer, msgs *messages, size int, kind string) (err error) {
	m := msgs.next(size)
	g, err := open(from, to, 0, memorySize(size), 0, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeUnless(err, g)) }()
	n, err := g.put(0, m)
	if err != nil {
		return err
	}
	if err := from.finish(n); err != nil {
		return err
	}
	if err := from.flush(ep); err != nil {
		return err
	}
	return g.check(m)
}

// closeUnless closes a region after a success; after a failure the processes are killed.
func closeUnless(failed error, g *region) error {
	if failed != nil {
		return nil
	}
	return g.close()
}

// getting reads a message.
func getting(from, to *peer, msgs *messages, size int, kind string) (err error) {
	m := msgs.next(size)
	g, err := open(from, to, 0, memorySize(size), m.seed, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeUnless(err, g)) }()
	n, err := g.get(0, size)
	if err != nil {
		return err
	}
	return g.got(n, m)
}

// accesses has puts and gets in flight together and flushes the worker.
func accesses(from, to *peer, msgs *messages, size int, kind string) (err error) {
	const count = 6
	if size > 1<<20 {
		return errNothingToDo
	}
	source := msgs.next(memorySize(size))
	in, err := open(from, to, 0, count*memorySize(size), 0, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeUnless(err, in)) }()
	out, err := open(from, to, 1, memorySize(size), source.seed, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeUnless(err, out)) }()
	var puts, gets []int
	whole := msgs.next(count * memorySize(size))
	for range count {
		n, err := in.put(0, whole)
		if err != nil {
			return err
		}
		puts = append(puts, n)
		n, err = out.get(0, source.size)
		if err != nil {
			return err
		}
		gets = append(gets, n)
	}
	for _, n := range puts {
		if err := from.finish(n); err != nil {
			return err
		}
	}
	if err := from.flush("worker"); err != nil {
		return err
	}
	if err := in.check(whole); err != nil {
		return err
	}
	for _, n := range gets {
		if err := out.got(n, source); err != nil {
			return err
		}
	}
	return nil
}

// atomically runs every atomic operation on words of both sizes and checks the word, its neighbors
// and the result.
func atomically(from, to *peer, _ *messages, size int, kind string) (err error) {
	if size != 8 {
		return errNothingToDo
	}
	g, err := open(from, to, 0, 24, 0, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeUnless(err, g)) }()
	const filler = 0xa5a5a5a5a5a5a5a5
	for _, c := range []struct {
		op        string
		old, x    uint64
		reply     uint64 // the new value of a compare-swap
		w32, w64  uint64
		mustFetch bool
	}{
		{op: "add", old: 5, x: 7, w32: 12, w64: 12},
		{op: "add", old: 0xffffffff, x: 1, w32: 0, w64: 0x100000000},
		{op: "and", old: 0xff00ff, x: 0x0ff00f, w32: 0x0f000f, w64: 0x0f000f},
		{op: "or", old: 0xf0, x: 0x0f, w32: 0xff, w64: 0xff},
		{op: "xor", old: 0xff, x: 0x0f, w32: 0xf0, w64: 0xf0},
		{op: "swap", old: 1, x: 1<<40 | 9, w32: 9, w64: 1<<40 | 9, mustFetch: true},
		{op: "cswap", old: 3, x: 3, reply: 8, w32: 8, w64: 8, mustFetch: true},
		{op: "cswap", old: 3, x: 4, reply: 8, w32: 3, w64: 3, mustFetch: true},
	} {
		for _, n := range []int{4, 8} {
			off, want, mask := 8, c.w64, ^uint64(0)
			if n == 4 {
				off, want, mask = 12, c.w32, 0xffffffff
			}
			for _, how := range []string{"fetch", "post"} {
				if how == "post" && c.mustFetch || how == "fetch" && kind == allocated && from.forgets(c.op) {
					continue
				}
				if err := to.do("setword", 0, 8, 8, uint64(filler)); err != nil {
					return err
				}
				if err := to.do("setword", 0, off, n, c.old); err != nil {
					return err
				}
				what := fmt.Sprintf("%s %s of %d bytes", how, c.op, n)
				req := from.request()
				if err := from.do("atomic", req, ep, 0, g.addr+uint64(off), n, c.op, c.x&mask, c.reply, how); err != nil {
					return err
				}
				r, err := from.wait(req, 0)
				if err != nil {
					return err
				}
				if r.status != ucs.OK {
					return from.statusError(what, r.status)
				}
				if how == "post" {
					if err := from.flush(ep); err != nil {
						return err
					}
				} else if uint64(r.tag) != c.old&mask {
					return fmt.Errorf("%s: %s returned %v, want %#x", from.name, what, r.tag, c.old)
				}
				if err := to.wordIs(off, n, want); err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
				if n == 4 {
					if err := to.wordIs(8, 4, filler&0xffffffff); err != nil {
						return fmt.Errorf("%s: neighbor: %w", what, err)
					}
				}
			}
		}
	}
	return nil
}

// forgets reports whether C runs a fetching bitwise operation on shared memory with the old value
// as the operand: and and or then do not change the word, xor clears it. 1.13.1 and 1.22.0 on amd64
// do so with C as the target, over posix and sysv, for words of 4 and 8 bytes; the instructions of
// uct_sm_ep_atomic32_fetch and uct_sm_ep_atomic64_fetch in 1.22.0 confirm it, their source does
// not.
func (p *peer) forgets(op string) bool {
	return p.isC() && (op == "and" || op == "or" || op == "xor")
}

// wordIs compares a word of memory 0.
func (p *peer) wordIs(off, size int, want uint64) error {
	values, err := p.command("word", 0, off, size)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("%#x", want); len(values) != 1 || values[0] != want {
		return fmt.Errorf("%s: the word at %d is %q, want %s", p.name, off, values, want)
	}
	return nil
}

// fenced puts a message and, after a fence, changes a word: when the word has changed, the message
// is there.
func fenced(from, to *peer, msgs *messages, size int, kind string) (err error) {
	m := msgs.next(memorySize(size))
	g, err := open(from, to, 0, m.size, 0, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeUnless(err, g)) }()
	flag, err := open(from, to, 1, 8, 0, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeUnless(err, flag)) }()
	if err := to.do("setword", 1, 0, 8, 0); err != nil {
		return err
	}
	put, err := g.put(0, m)
	if err != nil {
		return err
	}
	if err := from.do("fence"); err != nil {
		return err
	}
	add := from.request()
	if err := from.do("atomic", add, ep, 1, flag.addr, 8, "add", 1, 0, "post"); err != nil {
		return err
	}
	if err := from.finish(put); err != nil {
		return err
	}
	r, err := from.wait(add, 0)
	if err != nil {
		return err
	}
	if r.status != ucs.OK {
		return from.statusError("add behind a fence", r.status)
	}
	for end := time.Now().Add(operationLimit); ; {
		values, err := to.command("word", 1, 0, 8)
		if err != nil {
			return err
		}
		if len(values) == 1 && values[0] == "0x1" {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: the word behind a fence is still %q: %w", to.name, values, errTimeout)
		}
		for _, p := range []*peer{from, to} {
			if err := p.do("progress", 1); err != nil {
				return err
			}
		}
	}
	if kind == allocated && strings.HasPrefix(from.name, "C 1.13") {
		// C 1.13.1 with UCX_PROTO_ENABLE=y puts 8 KiB and more into such memory by messages, but
		// changes the word directly, and its fence does not wait for the messages. The data must be
		// correct after a flush.
		if err := from.flush("worker"); err != nil {
			return err
		}
	}
	if err := g.check(m); err != nil {
		return err
	}
	return from.flush("worker")
}
