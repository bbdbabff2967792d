//go:build linux

package interop

import (
	"errors"
	"fmt"
)

// The operations here are streams. Each receives all that it sends.

// part names a message from an offset on, in the form of the peers' commands.
func (m message) part(offset int) string { return fmt.Sprintf("%d+%d", m.seed, offset) }

// streamSend starts to send size bytes of a message, from an offset on.
func (p *peer) streamSend(ep int, m message, offset, size int, layout string) (int, error) {
	n := p.request()
	return n, p.do("ssend", n, ep, size, m.part(offset), layout)
}

// streamRecv posts a receive of up to size bytes.
func (p *peer) streamRecv(ep, size int, layout, how string) (int, error) {
	n := p.request()
	return n, p.do("srecv", n, ep, size, layout, how)
}

// streamed waits for a receive and returns its number of bytes, which must be those of m from the
// offset on.
func (p *peer) streamed(request int, m message, offset int) (int, error) {
	values, err := p.command("wait", request, m.part(offset), operationLimit.Milliseconds())
	if err != nil {
		return 0, err
	}
	return p.piece(values, m, offset)
}

// piece checks a result with bytes of a stream.
func (p *peer) piece(values []string, m message, offset int) (int, error) {
	got, err := parseResult(values)
	if err != nil {
		return 0, err
	}
	if got.status.IsError() {
		return 0, p.statusError("stream receive", got.status)
	}
	got.length = min(got.length, m.size-offset+1) // one byte too many is enough for an error
	return got.length, p.sameData("stream", values, message{size: got.length})
}

// withBytes is a stream operation that C 1.13 runs only with at least one byte: it aborts on an
// empty message (stream_recv.c). Go accepts those and sends none.
func withBytes(run operationFunc) operationFunc {
	return func(from, to *peer, msgs *messages, size int) error {
		if size == 0 && from.isC() && to.isC() && (majorMinor(from.name) == "1.13" || majorMinor(to.name) == "1.13") {
			return errNothingToDo
		}
		return run(from, to, msgs, size)
	}
}

// streamWhole receives a whole message, with the receive posted before or after it arrives.
func streamWhole(sendLayout, recvLayout string) operationFunc {
	return func(from, to *peer, msgs *messages, size int) error {
		for _, late := range []bool{false, true} {
			m := msgs.next(size)
			var r, s int
			var err error
			post := func() error { r, err = to.streamRecv(ep, size, recvLayout, "all"); return err }
			send := func() error { s, err = from.streamSend(ep, m, 0, size, sendLayout); return err }
			first, second := post, send
			if late {
				first, second = send, post
			}
			if err := first(); err != nil {
				return err
			}
			if late && size > 0 {
				if err := to.polled(ep); err != nil {
					return err
				}
			}
			if err := second(); err != nil {
				return err
			}
			got, err := to.streamed(r, m, 0)
			if err == nil && got != size {
				err = fmt.Errorf("%s: a stream receive of all has got %d bytes of %d", to.name, got, size)
			}
			if err := errors.Join(err, from.finish(s)); err != nil {
				return err
			}
		}
		return nil
	}
}

// polled waits until a poll reports that an endpoint, and no other, has bytes.
func (p *peer) polled(ep int) error {
	values, err := p.command("spoll", operationLimit.Milliseconds())
	if err == nil && (len(values) != 1 || values[0] != fmt.Sprint(ep)) {
		err = fmt.Errorf("%s: a poll of streams says %q, want endpoint %d", p.name, values, ep)
	}
	return err
}

// streamPieces receives what has arrived, into buffers of other sizes than those sent.
func streamPieces(from, to *peer, msgs *messages, size int) error {
	m := msgs.next(size)
	s, err := from.streamSend(ep, m, 0, size, "contig")
	if err != nil {
		return err
	}
	layouts := []string{"contig", "iov3", "generic"}
	for offset, i := 0, 0; offset < size; i++ {
		r, err := to.streamRecv(ep, max(size/5, 3), layouts[i%len(layouts)], "some")
		if err != nil {
			return err
		}
		n, err := to.streamed(r, m, offset)
		if err != nil {
			return fmt.Errorf("at %d: %w", offset, err)
		}
		if n == 0 {
			return fmt.Errorf("%s: a stream receive ended with nothing", to.name)
		}
		offset += n
	}
	return from.finish(s)
}

// streamInPlace reads the bytes in place, and some of them by a receive.
func streamInPlace(from, to *peer, msgs *messages, size int) error {
	if size > 1<<20 {
		return errNothingToDo // a command for each packet would take long
	}
	m := msgs.next(size)
	s, err := from.streamSend(ep, m, 0, size, "iov3")
	if err != nil {
		return err
	}
	for offset, i := 0, 0; offset < size; i++ {
		var n int
		if i%8 == 7 {
			r, err := to.streamRecv(ep, 1000, "contig", "some")
			if err != nil {
				return err
			}
			if n, err = to.streamed(r, m, offset); err != nil {
				return fmt.Errorf("at %d: %w", offset, err)
			}
		} else if n, err = to.streamInPlace(ep, m, offset); err != nil {
			return fmt.Errorf("at %d: %w", offset, err)
		}
		offset += n
	}
	return from.finish(s)
}

// streamInPlace takes the next bytes of a stream in place, which must be those of m from the offset
// on.
func (p *peer) streamInPlace(ep int, m message, offset int) (int, error) {
	values, err := p.command("sdata", ep, m.part(offset), operationLimit.Milliseconds())
	if err != nil {
		return 0, err
	}
	return p.piece(values, m, offset)
}

// streamBurst sends in pieces of many sizes and receives in others, some of them posted in advance,
// while bytes also flow in the other direction.
func streamBurst(from, to *peer, msgs *messages, size int) error {
	if size > 1<<20 {
		return errNothingToDo
	}
	const posted, sends = 4, 6
	there, back := msgs.next(sends*size), msgs.next(size)
	var receives []int
	for range posted {
		r, err := to.streamRecv(ep, size, "contig", "all")
		if err != nil {
			return err
		}
		receives = append(receives, r)
	}
	r, err := from.streamRecv(ep, size, "contig", "all")
	if err != nil {
		return err
	}
	var sent []int
	for offset, i := 0, 0; offset < there.size || i == 0; i++ {
		n := min([]int{1, size + 7, 3 * size / 2, 13}[i%4], there.size-offset)
		s, err := from.streamSend(ep, there, offset, n, "contig")
		if err != nil {
			return err
		}
		sent = append(sent, s)
		offset += n
		if len(sent) > 100 {
			for _, s := range sent {
				if err := from.finish(s); err != nil {
					return err
				}
			}
			sent = nil
		}
	}
	s, err := to.streamSend(ep, back, 0, size, "contig")
	if err != nil {
		return err
	}
	offset := 0
	for _, r := range receives {
		n, err := to.streamed(r, there, offset)
		if err != nil {
			return err
		}
		if n != size {
			return fmt.Errorf("%s: a stream receive of all has got %d bytes of %d", to.name, n, size)
		}
		offset += n
	}
	if n, err := from.streamed(r, back, 0); err != nil || n != size {
		return fmt.Errorf("%s: %d bytes of %d on the way back: %v", from.name, n, size, err)
	}
	last := there.size - offset
	if r, err = to.streamRecv(ep, last, "iov5", "all"); err != nil {
		return err
	}
	if n, err := to.streamed(r, there, offset); err != nil || n != last {
		return fmt.Errorf("%s: %d bytes of the last %d: %v", to.name, n, last, err)
	}
	for _, s := range sent {
		if err := from.finish(s); err != nil {
			return err
		}
	}
	return to.finish(s)
}
