//go:build linux

package interop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// ep is the endpoint number that the operations use on both sides.
const ep = 0

// operation is one row of the matrix, between two connected peers. from sends.
type operation struct {
	name string
	run  operationFunc
}

// operationFunc runs an operation with messages of a size.
type operationFunc = func(from, to *peer, msgs *messages, size int) error

var operations = []operation{
	{"send", expected("contig", "contig", "async")},
	{"send sync", expected("contig", "contig", "sync")},
	{"send iov", expected("iov5", "contig", "async")},
	{"recv iov", expected("contig", "iov4", "async")},
	{"iov sync", expected("iov3", "iov7", "sync")},
	{"generic", expected("generic", "generic", "async")},
	{"unexpected", late("contig", "contig")},
	{"unexpected sync", unexpectedSync},
	{"probe+msg recv", probed},
	{"truncated", truncated},
	{"wildcard", wildcard},
	{"burst", burst},
	{"exchange", exchange},
	{"put", on(own, putting)},
	{"get", on(own, getting)},
	{"puts and gets", on(own, accesses)},
	{"atomics", on(own, atomically)},
	{"fence", on(own, fenced)},
	{"am", active("plain", "contig")},
	{"am iov", active("plain", "iov4")},
	{"am eager", active("eager,reply", "contig")},
	{"am rndv", active("rndv", "iov5")},
	{"am copy header", activeCopied},
	{"am headers", activeHeaders},
	{"am answer", activeAnswer},
	{"am kept", activeKept},
	{"am kept rndv", activeKeptOffers},
	{"am refused", activeRefused},
	{"am burst", activeBurst},
	{"stream", withBytes(streamWhole("contig", "contig"))},
	{"stream iov", withBytes(streamWhole("iov5", "generic"))},
	{"stream pieces", withBytes(streamPieces)},
	{"stream data", withBytes(streamInPlace)},
	{"stream burst", withBytes(streamBurst)},
}

// named returns the operations with these names.
func named(names ...string) (list []operation) {
	for _, op := range operations {
		if slices.Contains(names, op.name) {
			list = append(list, op)
		}
	}
	return list
}

// sharedOperations use another protocol within a machine only.
var sharedOperations = []operation{
	{"put alloc", on(allocated, putting)},
	{"get alloc", on(allocated, getting)},
	{"puts, gets alloc", on(allocated, accesses)},
	{"atomics alloc", on(allocated, atomically)},
	{"fence alloc", on(allocated, fenced)},
	{"send alloc", expected(allocated, "contig", "async")},
	{"sync alloc", expected(allocated, "iov3", "sync")},
	{"late alloc", late(allocated, "generic")},
	{"recv alloc", expected("contig", allocated, "async")},
	{"both alloc", late(allocated, allocated)},
}

// expected sends to a receive that was posted before.
func expected(sendLayout, recvLayout, mode string) operationFunc {
	return expectedOver(ep, sendLayout, recvLayout, mode)
}

// expectedOver is expected over a given endpoint.
func expectedOver(ep int, sendLayout, recvLayout, mode string) operationFunc {
	return func(from, to *peer, msgs *messages, size int) error {
		m := msgs.next(size)
		r, err := to.recv(m.tag, fullMask, size, recvLayout)
		if err != nil {
			return err
		}
		s, err := from.send(ep, m, sendLayout, mode)
		if err != nil {
			return err
		}
		return both(from, s, to, r, m)
	}
}

// both waits for the receive of a message and for its send, in that order.
func both(from *peer, s int, to *peer, r int, m message) error {
	if err := to.received(r, m); err != nil {
		return err
	}
	return from.finish(s)
}

// late posts the receive after the message, or its announcement, has arrived. The buffer is larger
// than the message.
func late(sendLayout, recvLayout string) operationFunc {
	return func(from, to *peer, msgs *messages, size int) error {
		m := msgs.next(size)
		s, err := from.send(ep, m, sendLayout, "async")
		if err != nil {
			return err
		}
		if err := arrived(to, m, "keep"); err != nil {
			return err
		}
		r, err := to.recv(m.tag, fullMask, size+100, recvLayout)
		if err != nil {
			return err
		}
		return both(from, s, to, r, m)
	}
}

// arrived probes for a message until it has arrived.
func arrived(to *peer, m message, how string) error {
	seen, err := to.probe(m.tag, how)
	if err != nil {
		return err
	}
	if seen.tag != m.tag || seen.length != m.size {
		return fmt.Errorf("%s: probe saw tag %v, %d bytes; sent %v, %d bytes", to.name, seen.tag, seen.length, m.tag, m.size)
	}
	return nil
}

// unexpectedSync checks that a synchronous send is not complete before its
// message is matched.
func unexpectedSync(from, to *peer, msgs *messages, size int) error {
	m := msgs.next(size)
	s, err := from.send(ep, m, "contig", "sync")
	if err != nil {
		return err
	}
	if err := arrived(to, m, "keep"); err != nil {
		return err
	}
	switch _, err := from.waitFor(s, 0, 3*time.Millisecond); {
	case err == nil:
		return fmt.Errorf("%s: a synchronous send completed before it was matched", from.name)
	case !errors.Is(err, errTimeout):
		return err
	}
	r, err := to.recv(m.tag, fullMask, size, "contig")
	if err != nil {
		return err
	}
	return both(from, s, to, r, m)
}

// probed takes a message out of the unexpected queue and receives it, while an earlier receive for
// the same tag is posted, which gets the next message.
func probed(from, to *peer, msgs *messages, size int) error {
	first, second := msgs.next(size), msgs.next(size)
	second.tag = first.tag
	s1, err := from.send(ep, first, "contig", "async")
	if err != nil {
		return err
	}
	if err := arrived(to, first, "take"); err != nil {
		return err
	}
	r2, err := to.recv(second.tag, fullMask, size, "contig")
	if err != nil {
		return err
	}
	r1, err := to.mrecv(size, "contig")
	if err != nil {
		return err
	}
	s2, err := from.send(ep, second, "contig", "async")
	if err != nil {
		return err
	}
	return errors.Join(both(from, s1, to, r1, first), both(from, s2, to, r2, second))
}

// truncated receives into half a buffer: the receive fails, the send succeeds, whether expected or
// unexpected, and the next message is whole.
func truncated(from, to *peer, msgs *messages, size int) error {
	if size == 0 {
		return errNothingToDo // no byte to cut off
	}
	for _, late := range []bool{false, true} {
		m := msgs.next(size)
		receive := func() (int, error) { return to.recv(m.tag, fullMask, size/2, "contig") }
		var r int
		var err error
		if !late {
			if r, err = receive(); err != nil {
				return err
			}
		}
		s, err := from.send(ep, m, "contig", "async")
		if err != nil {
			return err
		}
		if late {
			if err := arrived(to, m, "keep"); err != nil {
				return err
			}
			if r, err = receive(); err != nil {
				return err
			}
		}
		got, err := to.wait(r, m.seed)
		if err != nil {
			return err
		}
		if got.status != ucs.ErrMessageTruncated || got.verdict != "same" {
			return fmt.Errorf("%w, data %s", to.statusError("truncated receive", got.status), got.verdict)
		}
		if err := from.finish(s); err != nil {
			return err
		}
	}
	return expected("contig", "contig", "async")(from, to, msgs, size)
}

// wildcard receives by a mask without the sender's part of the tag, then by an empty mask.
func wildcard(from, to *peer, msgs *messages, size int) error {
	for _, mask := range []tag{0xffff, 0} {
		m := msgs.next(size)
		r, err := to.recv(m.tag&mask, mask, size, "contig")
		if err != nil {
			return err
		}
		s, err := from.send(ep, m, "contig", "async")
		if err != nil {
			return err
		}
		if err := both(from, s, to, r, m); err != nil {
			return err
		}
	}
	return nil
}

// burst has several messages with one tag in flight, of two sizes, and half of the receives posted
// before: they match in the order of sending.
func burst(from, to *peer, msgs *messages, size int) error {
	const most = 12
	count := most
	if size > 1<<20 {
		count = 4
	}
	list := [most]message{}
	for i := range list[:count] {
		list[i] = msgs.next(size)
		if i%3 == 1 {
			list[i].size = 8
		}
		list[i].tag = list[0].tag
	}
	var sends, receives [most]int
	post := func(i int) (err error) {
		receives[i], err = to.recv(list[i].tag, fullMask, list[i].size, "contig")
		return err
	}
	for i := range count / 2 {
		if err := post(i); err != nil {
			return err
		}
	}
	for i, m := range list[:count] {
		var err error
		if sends[i], err = from.send(ep, m, "contig", "async"); err != nil {
			return err
		}
	}
	for i := count / 2; i < count; i++ {
		if err := post(i); err != nil {
			return err
		}
	}
	for i, m := range list[:count] {
		if err := both(from, sends[i], to, receives[i], m); err != nil {
			return fmt.Errorf("message %d of %d: %w", i, count, err)
		}
	}
	return nil
}

// exchange sends in both directions at the same time.
func exchange(from, to *peer, msgs *messages, size int) error {
	there, back := msgs.next(size), msgs.next(size)
	r1, err := to.recv(there.tag, fullMask, size, "contig")
	if err != nil {
		return err
	}
	r2, err := from.recv(back.tag, fullMask, size, "contig")
	if err != nil {
		return err
	}
	s1, err := from.send(ep, there, "contig", "async")
	if err != nil {
		return err
	}
	s2, err := to.send(ep, back, "contig", "async")
	if err != nil {
		return err
	}
	return errors.Join(both(from, s1, to, r1, there), both(to, s2, from, r2, back))
}
