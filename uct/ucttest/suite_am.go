package ucttest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testAM sends messages of every kind and size and compares every byte.
func testAM(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	attr := a.Iface.Attr()
	got := b.Collect(t, 5)
	for _, k := range KindsOf(attr) {
		t.Run(k.Name, func(t *testing.T) {
			s := &Sender{T: t, From: a, Endpoint: ep, ID: 5}
			for _, size := range Sizes(k.Min, k.Max(attr)) {
				if k.Flag == uct.IfaceAMZcopy && size < attr.AM.MinZcopy {
					continue
				}
				msg := Pattern(size, uint64(size))
				s.Completion = NewCompletion(1)
				err := Accept(t, func() error { return s.Send(&k, msg) }, a, b)
				if k.Flag != uct.IfaceAMZcopy || err == nil {
					Fill(msg, 0xbad) // copied or sent: the buffer may be reused
				}
				got.Wait(t, 1, a, b)
				m := got.Take()
				SameBytes(t, fmt.Sprintf("message of %d bytes", size), m[0].Data, Pattern(size, uint64(size)))
				if len(m) != 1 || m[0].ID != 5 {
					t.Fatalf("%d messages arrived, the first with id %d", len(m), m[0].ID)
				}
				s.Completion.Finish(t, err, a, b)
			}
		})
	}
}

// testAMLimits sends messages that are too long, have too many parts or an invalid id.
func testAMLimits(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	attr := a.Iface.Attr()
	got := b.Collect(t, 5)
	for _, k := range KindsOf(attr) {
		t.Run(k.Name, func(t *testing.T) {
			s := &Sender{T: t, From: a, Endpoint: ep, ID: 5, Completion: NewCompletion(1)}
			// An endpoint that is still connecting may return ucs.ErrNoResource for any
			// operation.
			refused := func(what string, send func() error) {
				t.Helper()
				var err error
				Until(t, "resources", func() bool { err = send(); return err != ucs.ErrNoResource }, a, b)
				WantStatus(t, what, err, ucs.ErrInvalidParam)
			}
			long := min(k.max(attr), 64<<20-1) + 1
			switch {
			case long <= k.max(attr), k.Flag == uct.IfaceAMBcopy:
				// There is no limit, or the packer keeps within it.
			case k.Flag == uct.IfaceAMZcopy:
				// Send without a header, whose length is known only after it is packed.
				iov := []uct.IOV{a.IOV(t, make([]byte, long))}
				refused("a message too long", func() error { return ep.AMZcopy(5, nil, iov, 0, s.completion()) })
			default:
				refused("a message too long", func() error { return s.Send(&k, make([]byte, long)) })
			}
			for _, id := range []uct.AMID{uct.MaxAMIDs, 255} {
				s.ID = id
				msg := make([]byte, max(8, k.Min, attr.AM.MinZcopy))
				refused("a bad id", func() error { return s.Send(&k, msg) })
			}
			if s.Completion.Fired != 0 {
				t.Error("a refused message was completed")
			}
		})
	}
	if n := attr.AM.MaxIOV; attr.Flags.Has(uct.IfaceAMZcopy) && n < 1000 {
		iov := make([]uct.IOV, n+1)
		for i := range iov {
			iov[i] = a.IOV(t, make([]byte, 8))
		}
		packer := &Packer{Data: []byte{1}}
		var err error
		Until(t, "resources", func() bool {
			err = ep.AMZcopy(5, packer, iov, 0, nil)
			return err != ucs.ErrNoResource
		}, a, b)
		WantStatus(t, "too many parts", err, ucs.ErrInvalidParam)
		if packer.Calls != 0 {
			t.Error("a refused message was packed")
		}
	}
	WantStatus(t, "handler of a bad id", a.Iface.SetAMHandler(uct.MaxAMIDs, got.Handler(0)), ucs.ErrInvalidParam)
	Settle(a, b)
	if got.Len() != 0 {
		t.Errorf("%d refused messages arrived", got.Len())
	}
}

// testAMShort checks the packing of the header.
func testAMShort(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	got := b.Collect(t, 0, 31)
	for i, header := range []uint64{0, 1, 0x0102030405060708, 1 << 63, ^uint64(0)} {
		id := uct.AMID(31 * (i % 2))
		payload := Pattern(i, header)
		Accept(t, func() error { return ep.AMShort(id, header, payload, 0, nil) }, a, b)
		got.Wait(t, 1, a, b)
		m := got.Take()[0]
		want := append(binary.LittleEndian.AppendUint64(nil, header), payload...)
		SameBytes(t, "short message", m.Data, want)
		if m.ID != id {
			t.Errorf("message has id %d, want %d", m.ID, id)
		}
	}
	// Parts of any length, empty ones and no part at all.
	for _, lens := range [][]int{{}, {0}, {0, 0, 0}, {1, 0, 7}, {0, 9}, {3, 3, 3, 3, 3}} {
		var iov []uct.IOV
		var want []byte
		for i, n := range lens {
			iov = append(iov, uct.IOV{Data: Pattern(n, uint64(i))})
			want = append(want, iov[i].Data...)
		}
		Accept(t, func() error { return ep.AMShortIOV(31, iov, 0, nil) }, a, b)
		got.Wait(t, 1, a, b)
		SameBytes(t, fmt.Sprintf("parts of %v bytes", lens), got.Take()[0].Data, want)
	}
}

// testAMBcopy checks the number of calls of the packer and the room that it gets.
func testAMBcopy(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	got := b.Collect(t, 1)
	limit := a.Iface.Attr().AM.MaxBcopy
	for _, size := range []int{0, 1, min(limit, maxSize)} {
		p := &Packer{Data: Pattern(size, 3)}
		var n int
		err := Accept(t, func() (err error) {
			before := p.Calls
			n, err = ep.AMBcopy(1, p, 0, nil)
			if err != nil && err != ucs.InProgress && p.Calls != before {
				t.Fatalf("packed in a call that returned %v", err)
			}
			return err
		}, a, b)
		if p.Calls != 1 || n != size || p.Room < limit && limit != uct.Unlimited {
			t.Errorf("%v: packed %d times into %d bytes, result %d, want once, at least %d and %d",
				err, p.Calls, p.Room, n, limit, size)
		}
		got.Wait(t, 1, a, b)
		SameBytes(t, "packed message", got.Take()[0].Data, p.Data)
	}
}

// testAMZcopy checks headers of all lengths, lists of all lengths, and that the buffers are not
// changed.
func testAMZcopy(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	attr := a.Iface.Attr()
	got := b.Collect(t, 1)
	for _, header := range Sizes(0, attr.AM.MaxZcopyHdr) {
		for _, parts := range []int{1, min(2, attr.AM.MaxIOV), min(attr.AM.MaxIOV, 16)} {
			data := Pattern(max(attr.AM.MinZcopy, min(3000, attr.AM.MaxZcopy-header)), 7)
			var iov []uct.IOV
			for _, part := range split(data, parts) {
				iov = append(iov, a.IOV(t, part))
			}
			p := &Packer{Data: Pattern(header, 8)}
			c := NewCompletion(1)
			err := Accept(t, func() error { return ep.AMZcopy(1, p, iov, 0, &c.Completion) }, a, b)
			if p.Calls != 1 || p.Room < attr.AM.MaxZcopyHdr {
				t.Fatalf("header packed %d times into %d bytes", p.Calls, p.Room)
			}
			c.Finish(t, err, a, b)
			got.Wait(t, 1, a, b)
			SameBytes(t, "zcopy message", got.Take()[0].Data, append(p.Data, data...))
			SameBytes(t, "the sender's buffer", data, Pattern(len(data), 7))
		}
	}
	// No header, and no data.
	for _, msg := range [][2]int{{0, max(1, attr.AM.MinZcopy)}, {min(8, attr.AM.MaxZcopyHdr), 0}} {
		if msg[1] < attr.AM.MinZcopy {
			continue
		}
		var hdr uct.Packer
		want := Pattern(msg[0], 9)
		if msg[0] > 0 {
			hdr = &Packer{Data: Pattern(msg[0], 9)}
		}
		var iov []uct.IOV
		if msg[1] > 0 {
			iov = append(iov, a.IOV(t, Pattern(msg[1], 10)))
			want = append(want, iov[0].Data...)
		}
		c := NewCompletion(1)
		err := Accept(t, func() error { return ep.AMZcopy(1, hdr, iov, 0, &c.Completion) }, a, b)
		c.Finish(t, err, a, b)
		got.Wait(t, 1, a, b)
		SameBytes(t, fmt.Sprintf("message of %d and %d bytes", msg[0], msg[1]), got.Take()[0].Data, want)
	}
}

// testAMOrder sends messages of mixed kinds and lengths over one endpoint, and checks that each
// arrives once, in the order of acceptance.
func testAMOrder(t *testing.T, f *Fixture) {
	const count = 400
	a, b := f.Pair(t)
	attr := a.Iface.Attr()
	kinds := KindsOf(attr)
	got := b.Collect(t, 2)
	s := &Sender{T: t, From: a, Endpoint: a.Connect(t, b), ID: 2}
	c := NewCompletion(0)
	for i := range uint64(count) {
		k := &kinds[(i*7+i/5)%uint64(len(kinds))]
		size := max(8, k.Min, attr.AM.MinZcopy) + int(i*i*131)%2000
		msg := numbered(i, min(size, k.Max(attr)))
		s.Completion = c
		c.Count++
		if Accept(t, func() error { return s.Send(k, msg) }, a, b) == nil {
			c.Count--
		}
		if i%17 == 0 {
			Progress(a, b)
		}
	}
	got.Wait(t, count, a, b)
	for i, m := range got.Take() {
		if n := sequence(m.Data); n != uint64(i) {
			t.Fatalf("message %d arrived in place %d", n, i)
		}
		SameBytes(t, fmt.Sprintf("message %d", i), m.Data, numbered(uint64(i), len(m.Data)))
	}
	Until(t, "all completions", func() bool { return c.Count == 0 }, a, b)
	if c.Err != nil {
		t.Errorf("completed with %v", c.Err)
	}
}

// testAMBothWays lets two hosts send to each other at the same time, from the first message on.
// Some transports then connect simultaneously.
func testAMBothWays(t *testing.T, f *Fixture) {
	const count = 200
	a, b := f.Pair(t)
	ab, ba := a.ConnectPair(t, b)
	if ba == nil {
		ba = b.Connect(t, a)
	}
	k := &KindsOf(a.Iface.Attr())[0]
	atA, atB := a.Collect(t, 1), b.Collect(t, 2)
	sa := &Sender{T: t, From: a, Endpoint: ab, ID: 2}
	sb := &Sender{T: t, From: b, Endpoint: ba, ID: 1}
	for i := range uint64(count) {
		Accept(t, func() error { return sa.Number(k, i) }, a, b)
		Accept(t, func() error { return sb.Number(k, i) }, a, b)
	}
	atA.Wait(t, count, a, b)
	atB.Wait(t, count, a, b)
	for i := range uint64(count) {
		if x, y := sequence(atA.Messages[i].Data), sequence(atB.Messages[i].Data); x != i || y != i {
			t.Fatalf("messages %d and %d arrived in place %d", x, y, i)
		}
	}
}

// testAMSendNow sends with SendNow. The message leaves inside the call, so the test progresses
// only the receiver.
func testAMSendNow(t *testing.T, f *Fixture) {
	a, b := f.Pair(t)
	attr := a.Iface.Attr()
	got := b.Collect(t, 2)
	s := &Sender{T: t, From: a, Endpoint: a.Connect(t, b), ID: 2}
	kinds := KindsOf(attr)
	// To connect, both hosts may need progress.
	Accept(t, func() error { return s.Number(&kinds[0], 0) }, a, b)
	got.Wait(t, 1, a, b)
	Settle(a, b)
	s.Flags = uct.SendNow
	for i := range kinds {
		k := &kinds[i]
		msg := numbered(uint64(i), min(max(100, k.Min, attr.AM.MinZcopy), k.Max(attr)))
		s.Completion = NewCompletion(1)
		got.Take()
		err := Accept(t, func() error { return s.Send(k, msg) }, a, b)
		got.Wait(t, 1, b)
		SameBytes(t, k.Name, got.Messages[0].Data, msg)
		s.Completion.Finish(t, err, a, b)
	}
}
