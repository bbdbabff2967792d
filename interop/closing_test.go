//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
)

// A script is a list of commands that a peer carries out one right behind the other.
type script struct {
	*peer
	lines   [][]any
	answers []func(values []string, err error) error
}

// add adds a command, and what to do with its answer; nil expects ok.
func (s *script) add(heed func(values []string, err error) error, words ...any) {
	s.lines = append(s.lines, words)
	s.answers = append(s.answers, heed)
}

// tell sends all of it at once.
func (s *script) tell() error {
	var text strings.Builder
	for _, words := range s.lines {
		fmt.Fprintln(&text, words...)
	}
	if _, err := s.stdin.Write([]byte(text.String())); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// heed reads all answers.
func (s *script) heed() (first error) {
	for k, words := range s.lines {
		values, err := s.answer(words...)
		if heed := s.answers[k]; heed != nil {
			err = heed(values, err)
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}

// leaving is what one side does behind the last message.
type leaving struct {
	how   string        // flush or force
	after time.Duration // behind the message
	told  bool          // not before its error handler is called
}

func (l leaving) String() string {
	if l.told {
		return l.how + " when told"
	}
	return fmt.Sprintf("%s after %v", l.how, l.after)
}

// ending is the end of some connections.
type ending struct {
	client, server leaving
	last           string // who sends the last message: client, server or nobody
	size           int    // of it
	at             int    // how many connections at once, 0 for one
}

func (e ending) String() string {
	s := fmt.Sprintf("%d bytes from %s, client %v, server %v", e.size, e.last, e.client, e.server)
	if e.at > 0 {
		s += fmt.Sprintf(", %d at once", e.at)
	}
	return s
}

// forced reports whether a side closes with force.
func (e ending) forced() bool { return e.client.how == "force" || e.server.how == "force" }

// parted is how a connection ended at one side.
type parted struct {
	status, handler ucs.Status
	lost            bool  // the last message, for who is to send or to receive it
	before, after   int64 // the time of day around the call of the close
}

func (p parted) String() string {
	s := fmt.Sprintf("close: %v, handler: %v", p.status, p.handler)
	if p.lost {
		s += ", the message is lost"
	}
	return s
}

// end makes connections and ends them that way. It returns the client's and the server's ends.
func (d *dialing) end(e ending) (client, server []parted, err error) {
	n := max(e.at, 1)
	for i := range n {
		if err := d.open(i); err != nil {
			return nil, nil, err
		}
	}
	client, server = make([]parted, n), make([]parted, n)
	c, s := &script{peer: d.client}, &script{peer: d.server}
	var last []message
	for range n {
		last = append(last, d.msgs.next(e.size))
	}
	c.leave(e.client, client, last, e.last == "client", e.last == "server")
	s.leave(e.server, server, last, e.last == "server", e.last == "client")
	if err := errors.Join(c.tell(), s.tell()); err != nil {
		return nil, nil, err
	}
	return client, server, errors.Join(c.heed(), s.heed())
}

// open makes a connection, and has a message cross it each way.
func (d *dialing) open(ep int) error {
	if err := d.connectAs(ep); err != nil {
		return err
	}
	cross := expectedOver(ep, "contig", "contig", "async")
	if err := cross(d.client, d.server, &d.msgs, 8); err != nil {
		return err
	}
	return cross(d.server, d.client, &d.msgs, 8)
}

// leave is what one side does.
func (s *script) leave(l leaving, ends []parted, last []message, sends, receives bool) {
	var posted []int
	for i, m := range last {
		n := s.request()
		switch {
		case sends:
			s.add(nil, "send", n, i, m.tag, m.size, m.seed, "contig", "async")
		case receives:
			s.add(nil, "recv", n, m.tag, fullMask, m.size, "contig")
		default:
			continue
		}
		posted = append(posted, n)
	}
	// A close waits for what was sent before. That of C by socket address does not wait for data
	// that the other side fetches, and 1.13 aborts then, also toward C.
	waits := receives || s.isC() && last[0].size > 8
	for i, n := range posted {
		if !waits {
			break
		}
		s.add(func(values []string, err error) error {
			got, err := resultOf(values, err)
			ends[i].lost = err != nil || got.status != ucs.OK || receives && got.verdict != "same"
			return err
		}, "wait", n, last[i].seed, operationLimit.Milliseconds())
	}
	if l.told {
		for i := range ends {
			s.add(func(_ []string, err error) error { return err }, "failed", i, operationLimit.Milliseconds())
		}
	}
	stamp := func(to func(i int) *int64) func([]string, error) error {
		return func(values []string, err error) error {
			if err != nil {
				return err
			}
			n, err := strconv.ParseInt(values[0], 10, 64)
			for i := range ends {
				*to(i) = n
			}
			return err
		}
	}
	s.add(stamp(func(i int) *int64 { return &ends[i].before }), "pause", l.after.Microseconds())
	var closes []int
	for i := range ends {
		n := s.request()
		closes = append(closes, n)
		s.add(nil, "close", n, i, l.how)
	}
	s.add(stamp(func(i int) *int64 { return &ends[i].after }), "pause", 0)
	for i, n := range closes {
		s.add(func(values []string, err error) error {
			got, err := resultOf(values, err)
			ends[i].status = got.status
			return err
		}, "wait", n, 0, operationLimit.Milliseconds())
	}
	for i, n := range posted {
		if waits {
			break
		}
		s.add(func(values []string, err error) error {
			got, err := resultOf(values, err)
			ends[i].lost = err != nil || got.status != ucs.OK
			return err
		}, "wait", n, 0, operationLimit.Milliseconds())
	}
	for i := range ends {
		s.add(func(values []string, err error) error {
			got, err := resultOf(values, err)
			ends[i].handler = got.status
			return err
		}, "failure", i)
	}
}

func resultOf(values []string, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	return parseResult(values)
}

// partingTime is how long an end of ours leaves it to the other side to close, and may close
// behind the other side without being told of a failure.
const partingTime = 50 * time.Millisecond

// judge says what is wrong with the end of a connection, and whether a side closed so long
// behind the other one that its handler may be called.
func (e ending) judge(client, server parted, c, s *peer) (late bool, err error) {
	for _, side := range []struct {
		name        string
		mine, other parted
		how, others leaving
		peer        *peer
	}{
		{"client", client, server, e.client, e.server, c},
		{"server", server, client, e.server, e.client, s},
	} {
		isLate := side.mine.after-side.other.before > int64(partingTime)
		late = late || isLate
		switch {
		case side.others.how == "force": // anything may be lost by that
		case side.mine.lost:
			err = fmt.Errorf("%s: %v", side.name, side.mine)
		case side.how.how == "force" || side.mine.status == ucs.OK && side.mine.handler == ucs.OK:
		case side.how.told && (side.mine.status == ucs.OK || side.peer.isC()): // which says so again
		case isLate && side.mine.handler != ucs.OK:
		default:
			err = fmt.Errorf("%s: %v, %v behind the other side's close", side.name, side.mine, time.Duration(side.mine.after-side.other.before))
		}
		if err != nil {
			return late, err
		}
	}
	return late, nil
}

// closeOrders are the ways to end a connection of which each is different. The first are of
// two sides that close behind the last message at about the same time, in either order.
func closeOrders() (together, others []ending) {
	flush := func(after time.Duration) leaving { return leaving{how: "flush", after: after} }
	told, force := leaving{how: "flush", told: true}, leaving{how: "force"}
	delays := []time.Duration{0, 50 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}
	for _, a := range delays {
		for _, b := range delays {
			for _, last := range []string{"client", "server"} {
				together = append(together, ending{client: flush(a), server: flush(b), last: last, size: 8})
			}
		}
	}
	for _, last := range []string{"client", "server"} {
		for _, size := range []int{0, 64 << 10, 4 << 20} {
			others = append(others, ending{client: flush(0), server: flush(0), last: last, size: size})
		}
		others = append(others,
			ending{client: flush(0), server: flush(0), last: last, size: 8, at: 6},
			ending{client: flush(0), server: flush(time.Millisecond), last: last, size: 64 << 10, at: 6},
			ending{client: flush(0), server: told, last: last, size: 8},
			ending{client: told, server: flush(0), last: last, size: 8},
			ending{client: force, server: flush(0), last: last, size: 8},
			ending{client: flush(0), server: force, last: last, size: 8},
		)
	}
	return together, append(others, ending{client: flush(0), server: flush(0), last: "nobody"})
}

// allEndings are all ways to end a connection, and count times by both sides at about the same
// time.
func allEndings(count int) (list []ending) {
	together, list := closeOrders()
	for k := range count {
		list = append(list, together[k*11%len(together)])
	}
	return list
}

// closings ends a connection in each of some ways, one after the other.
func (d *dialing) closings(t *testing.T, list []ending) error {
	late := 0
	for _, e := range list {
		client, server, err := d.end(e)
		if err != nil {
			return fmt.Errorf("%v: %w", e, err)
		}
		for i := range client {
			behind, err := e.judge(client[i], server[i], d.client, d.server)
			if err != nil {
				return fmt.Errorf("%v: %w", e, err)
			}
			if behind {
				late++
			}
		}
	}
	t.Logf("%d connections of which a side closed late", late)
	for _, side := range []*peer{d.client, d.server} {
		if !side.isC() {
			if err := side.noEnds(); err != nil {
				return err
			}
		}
	}
	return errors.Join(d.server.do("unlisten"), d.client.exit(), d.server.exit())
}

// noEnds checks that a peer of ours has no endpoint left, or soon has none.
func (p *peer) noEnds() error {
	for end := time.Now().Add(operationLimit); ; {
		values, err := p.command("ends")
		switch {
		case err != nil || values[0] == "0":
			return err
		case time.Now().After(end):
			return fmt.Errorf("%s: %s endpoints are left", p.name, values[0])
		}
		if err := p.do("progress", 1); err != nil {
			return err
		}
	}
}

// TestClosings: both sides of a connection by socket address close it behind the last message,
// in either order. Both closes succeed and no error handler is called, but that of a side that
// closes long behind the other one; the last message arrives, and no endpoint of ours is left.
func TestClosings(t *testing.T) {
	t.Parallel() // the peers sleep much
	count := 12
	if needtest.Full {
		count = 100
	}
	eachDialing(t, dialingRoutes[:4], func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if !theirs.dials("peer", weServe, over) {
			t.Skip(theirs.name + " does not connect that way, to itself neither")
		}
		d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer"}, over)
		if err != nil {
			t.Fatal(err)
		}
		defer d.report(t)
		if err := d.closings(t, allEndings(count)); err != nil {
			t.Fatal(err)
		}
	})
}
