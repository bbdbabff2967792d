//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ucx-go/ucx/ucs"
)

// The operations here are active messages. Each sets the handler that it needs.

// amID is the id that the operations use, answerID that of their answers.
const amID, answerID = 5, 6

// replyEP is the endpoint number that reply endpoints get.
const replyEP = 1

// handler sets what a peer does with active messages of an id.
func (p *peer) handler(id int, does string) error { return p.do("handle", id, does) }

// activeSend starts to send a message on an endpoint, with a header of this length.
func (p *peer) activeSend(ep, id, header int, m message, layout, flags string) (int, error) {
	n := p.request()
	return n, p.do("am", n, ep, id, header, m.size, m.seed, layout, flags)
}

// activeNext takes the oldest active message into hand, which must be m with a header of this
// length, and returns whether its data is still at the sender, and whether it can be answered.
func (p *peer) activeNext(id, header int, m message) (offered, reply bool, err error) {
	values, err := p.command("amnext", replyEP, m.seed, operationLimit.Milliseconds())
	if err != nil {
		return false, false, err
	}
	if len(values) != 6 {
		return false, false, fmt.Errorf("%s: amnext reply %q", p.name, values)
	}
	offered, reply = values[3] == "offered", values[4] == "reply"
	got := fmt.Sprintf("id %s, header of %s bytes, %s bytes, %s", values[0], values[1], values[2], values[5])
	if want := fmt.Sprintf("id %d, header of %d bytes, %d bytes, same", id, header, m.size); got != want {
		err = fmt.Errorf("%s: an active message has %s, want %s", p.name, got, want)
	}
	return offered, reply, err
}

// activeData checks the data of the message in hand and releases it.
func (p *peer) activeData(m message) error {
	values, err := p.command("amdata", m.seed, operationLimit.Milliseconds())
	if err != nil {
		return err
	}
	return p.sameData("data of an active message", values, m)
}

// sameData checks a result with received data.
func (p *peer) sameData(what string, values []string, m message) error {
	got, err := parseResult(values)
	switch {
	case err != nil:
		return err
	case got.status != ucs.OK:
		return p.statusError(what, got.status)
	case got.length != m.size || got.verdict != "same":
		return fmt.Errorf("%s: %s: %d bytes of %d, %s", p.name, what, got.length, m.size, got.verdict)
	}
	return nil
}

// activeReceive receives the data of the message in hand.
func (p *peer) activeReceive(m message, layout string) error {
	n := p.request()
	if err := p.do("amrecv", n, m.size, layout); err != nil {
		return err
	}
	values, err := p.command("wait", n, m.seed, operationLimit.Milliseconds())
	if err != nil {
		return err
	}
	return p.sameData("receive of an active message", values, m)
}

// active sends a message to a handler that receives it.
func active(flags, layout string) operationFunc {
	return func(from, to *peer, msgs *messages, size int) error {
		if err := to.handler(amID, "receive"); err != nil {
			return err
		}
		const header = 16
		m := msgs.next(size)
		s, err := from.activeSend(ep, amID, header, m, layout, flags)
		if err != nil {
			return err
		}
		offered, reply, err := to.activeNext(amID, header, m)
		if err != nil {
			return err
		}
		if flags == "rndv" && !offered || flags == "eager,reply" && (offered || !reply) || flags == "plain" && reply {
			return fmt.Errorf("%s: sent with flags %s; offered: %v, reply endpoint: %v", to.name, flags, offered, reply)
		}
		return errors.Join(to.activeData(m), from.finish(s))
	}
}

// activeCopied overwrites the header after the call has returned.
func activeCopied(from, to *peer, msgs *messages, size int) error {
	if size != 8 && size != 65536 {
		return errNothingToDo
	}
	if majorMinor(from.name) == "1.13" { // 1.13 does not send anything
		s, err := from.activeSend(ep, amID, 8, msgs.next(size), "contig", "copy")
		return errors.Join(err, from.finish(s))
	}
	return active("copy", "contig")(from, to, msgs, size)
}

// activeHeaders sends headers of all lengths, with and without data.
func activeHeaders(from, to *peer, msgs *messages, size int) error {
	if size > 65536 {
		return errNothingToDo
	}
	values, err := from.command("amlimit")
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(values[0])
	if err != nil {
		return err
	}
	if limit < 200 {
		return fmt.Errorf("%s: headers of %d bytes at most", from.name, limit)
	}
	if err := to.handler(amID, "receive"); err != nil {
		return err
	}
	for _, header := range []int{0, 1, 7, 100, 200, limit - 1, limit} {
		m := msgs.next(size)
		s, err := from.activeSend(ep, amID, header, m, "contig", "plain")
		if err != nil {
			return err
		}
		if _, _, err := to.activeNext(amID, header, m); err != nil {
			return err
		}
		if err := errors.Join(to.activeData(m), from.finish(s)); err != nil {
			return fmt.Errorf("header of %d bytes: %w", header, err)
		}
	}
	return nil
}

// activeAnswer answers a message of each kind on the reply endpoint.
func activeAnswer(from, to *peer, msgs *messages, size int) error {
	if err := errors.Join(to.handler(amID, "receive"), from.handler(answerID, "receive")); err != nil {
		return err
	}
	for _, flags := range []string{"reply", "reply,rndv"} {
		question, answer := msgs.next(size), msgs.next(size)
		s, err := from.activeSend(ep, amID, 8, question, "contig", flags)
		if err != nil {
			return err
		}
		_, reply, err := to.activeNext(amID, 8, question)
		if err != nil {
			return err
		}
		if !reply {
			return fmt.Errorf("%s: no endpoint to answer on", to.name)
		}
		a, err := to.activeSend(replyEP, answerID, 24, answer, "contig", "plain")
		if err != nil {
			return err
		}
		if _, _, err := from.activeNext(answerID, 24, answer); err != nil {
			return err
		}
		if err := errors.Join(to.activeData(question), from.activeData(answer), from.finish(s), to.finish(a)); err != nil {
			return err
		}
	}
	return nil
}

// kept sends messages to a handler that keeps them all, and calls look for each.
func kept(from, to *peer, msgs *messages, count, size int, flags string, look func(m message) error) error {
	if err := to.handler(amID, "keep"); err != nil {
		return err
	}
	var sends []int
	var sent []message
	for range count {
		m := msgs.next(size)
		s, err := from.activeSend(ep, amID, 8, m, "contig", flags)
		if err != nil {
			return err
		}
		sends, sent = append(sends, s), append(sent, m)
	}
	for _, m := range sent {
		if _, _, err := to.activeNext(amID, 8, m); err != nil {
			return err
		}
		if err := look(m); err != nil {
			return err
		}
	}
	for _, s := range sends {
		if err := from.finish(s); err != nil {
			return err
		}
	}
	return nil
}

// activeKept keeps data where it arrived: it is read in place, copied elsewhere, or released.
func activeKept(from, to *peer, msgs *messages, size int) error {
	turn := 0
	return kept(from, to, msgs, 6, size, "eager", func(m message) error {
		turn++
		switch turn % 3 {
		case 0:
			return to.do("amdrop")
		case 1:
			return to.activeReceive(m, "iov3")
		}
		return to.activeData(m)
	})
}

// activeKeptOffers keeps offers for a while: then the data is fetched or the offer released.
func activeKeptOffers(from, to *peer, msgs *messages, size int) error {
	turn := 0
	return kept(from, to, msgs, 3, size, "rndv", func(m message) error {
		turn++
		if turn == 2 {
			return to.do("amdrop")
		}
		return to.activeReceive(m, "iov4")
	})
}

// activeRefused offers data to handlers that refuse it: the send fails with their status. It does
// not affect eager data.
func activeRefused(from, to *peer, msgs *messages, size int) error {
	for _, c := range []struct {
		does, flags string
		want        ucs.Status
	}{
		{"refuse", "rndv", ucs.ErrOutOfRange},
		{"refuse", "eager", ucs.OK},
		{"drop", "rndv", ucs.OK},
		{"drop", "eager", ucs.OK},
	} {
		if err := to.handler(amID, c.does); err != nil {
			return err
		}
		m := msgs.next(size)
		s, err := from.activeSend(ep, amID, 8, m, "contig", c.flags)
		if err != nil {
			return err
		}
		if _, _, err := to.activeNext(amID, 8, m); err != nil {
			return err
		}
		if err := to.do("amdrop"); err != nil {
			return err
		}
		switch got, err := from.wait(s, 0); {
		case err != nil:
			return err
		case got.status != c.want:
			return fmt.Errorf("%s: sent with %s to a handler that does %s: %v, want %v", from.name, c.flags, c.does, got.status, c.want)
		}
	}
	return nil
}

// activeBurst has short messages and offers in flight together: they arrive in the order of
// sending.
func activeBurst(from, to *peer, msgs *messages, size int) error {
	if err := to.handler(amID, "receive"); err != nil {
		return err
	}
	const count = 8
	var sends []int
	var sent []message
	for i := range count {
		m := msgs.next(min(size, 1024))
		flags := "eager"
		if i%3 == 2 {
			m, flags = msgs.next(size), "rndv"
		}
		s, err := from.activeSend(ep, amID, i, m, "contig", flags)
		if err != nil {
			return err
		}
		sends, sent = append(sends, s), append(sent, m)
	}
	for i, m := range sent {
		if _, _, err := to.activeNext(amID, i, m); err != nil {
			return fmt.Errorf("message %d of %d: %w", i, count, err)
		}
		if err := errors.Join(to.activeData(m), from.finish(sends[i])); err != nil {
			return fmt.Errorf("message %d of %d: %w", i, count, err)
		}
	}
	return expected("contig", "contig", "async")(from, to, msgs, size)
}
