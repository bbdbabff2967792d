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

// A script is a list of commands that a peer runs one after the other without delay.
type script struct {
	*peer
	lines   [][]any
	answers []func(values []string, err error) error
}

// add adds a command and a function for its answer; with nil, the answer must be ok.
func (s *script) add(heed func(values []string, err error) error, words ...any) {
	s.lines = append(s.lines, words)
	s.answers = append(s.answers, heed)
}

// tell sends all commands at once.
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

// heed reads and handles all answers.
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

// leaving is what one side does after the last message.
type leaving struct {
	how   string        // flush or force
	after time.Duration // after the message
	told  bool          // waits until its error handler was called
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
	last           string // the sender of the last message: client, server or nobody
	size           int    // of the last message
	at             int    // number of simultaneous connections, 0 for one
}

func (e ending) String() string {
	s := fmt.Sprintf("%d bytes from %s, client %v, server %v", e.size, e.last, e.client, e.server)
	if e.at > 0 {
		s += fmt.Sprintf(", %d at once", e.at)
	}
	return s
}

// forced reports whether a side forces its close.
func (e ending) forced() bool { return e.client.how == "force" || e.server.how == "force" }

// parted is how a connection ended on one side.
type parted struct {
	status, handler ucs.Status
	lost            bool  // the last message, on either side
	before, after   int64 // times before and after the call of close
}

func (p parted) String() string {
	s := fmt.Sprintf("close: %v, handler: %v", p.status, p.handler)
	if p.lost {
		s += ", the message is lost"
	}
	return s
}

// end makes connections and ends them in the given way. It returns how they ended at the client and
// the server.
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

// open makes a connection, and exchanges a message in each direction.
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

// leave adds the commands of one side.
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
	// A close waits for earlier sends. C's close by socket address does not wait for data that the
	// other side fetches; 1.13 aborts then, also with C.
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

// partingTime is how long a Go endpoint waits for the other side to close, and how much later it
// may close without a failure.
const partingTime = 50 * time.Millisecond

// judge returns what is wrong with the end of a connection, and whether a side closed so late that
// its error handler may be called.
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
		case side.others.how == "force": // anything may be lost
		case side.mine.lost:
			err = fmt.Errorf("%s: %v", side.name, side.mine)
		case side.how.how == "force" || side.mine.status == ucs.OK && side.mine.handler == ucs.OK:
		case side.how.told && (side.mine.status == ucs.OK || side.peer.isC()): // reports it again
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

// closeOrders returns the ways to end a connection. In the first list both sides close after the
// last message at about the same time, in either order.
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

// allEndings returns all ways to end a connection, count of them with simultaneous closes.
func allEndings(count int) (list []ending) {
	together, list := closeOrders()
	for k := range count {
		list = append(list, together[k*11%len(together)])
	}
	return list
}

// closings ends one connection after the other, each in one of the ways.
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

// noEnds checks that a Go peer has no endpoint left, or soon has none.
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

// TestClosings: both sides of a connection by socket address close it after the last message, in
// either order. Both closes succeed and no error handler is called, except on a side that closes
// much later than the other. The last message arrives, and no Go endpoint is left.
func TestClosings(t *testing.T) {
	t.Parallel() // the peers mostly sleep
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
