package ucttest

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/uct"
)

// Kind is one operation that sends an active message. The receiver sees the same bytes for
// every kind.
type Kind struct {
	Name string
	Flag uct.IfaceFlags
	Min  int                        // shortest message
	max  func(a *uct.IfaceAttr) int // longest message
	send func(s *Sender, msg []byte) error
}

// Kinds contains all kinds of operations that send an active message.
var Kinds = []Kind{
	{
		Name: "short",
		Flag: uct.IfaceAMShort,
		Min:  8,
		max:  func(a *uct.IfaceAttr) int { return a.AM.MaxShort },
		send: func(s *Sender, msg []byte) error {
			return s.Endpoint.AMShort(s.ID, binary.LittleEndian.Uint64(msg), msg[8:], s.Flags, s.completion())
		},
	},
	{
		Name: "short iov",
		Flag: uct.IfaceAMShort,
		max:  func(a *uct.IfaceAttr) int { return a.AM.MaxShort },
		send: func(s *Sender, msg []byte) error {
			s.iov = s.iov[:0]
			for _, part := range split(msg, 3) {
				s.iov = append(s.iov, uct.IOV{Data: part})
			}
			return s.Endpoint.AMShortIOV(s.ID, s.iov, s.Flags, s.completion())
		},
	},
	{
		Name: "bcopy",
		Flag: uct.IfaceAMBcopy,
		max:  func(a *uct.IfaceAttr) int { return a.AM.MaxBcopy },
		send: func(s *Sender, msg []byte) error {
			s.packer = Packer{Data: msg}
			n, err := s.Endpoint.AMBcopy(s.ID, &s.packer, s.Flags, s.completion())
			if accepted(err) != (s.packer.Calls == 1) || accepted(err) && n != len(msg) {
				s.T.Fatalf("AMBcopy of %d bytes: %d, %v after %d calls of Pack", len(msg), n, err, s.packer.Calls)
			}
			return err
		},
	},
	{
		Name: "zcopy",
		Flag: uct.IfaceAMZcopy,
		max:  func(a *uct.IfaceAttr) int { return a.AM.MaxZcopy },
		send: func(s *Sender, msg []byte) error {
			attr := s.From.Iface.Attr()
			header := min(len(msg)/2, attr.AM.MaxZcopyHdr, 100)
			if len(msg)-header < attr.AM.MinZcopy {
				header = 0
			}
			s.packer = Packer{Data: msg[:header]}
			// The list belongs to the transport until the completion.
			var iov []uct.IOV
			for _, part := range split(msg[header:], min(3, attr.AM.MaxIOV)) {
				iov = append(iov, s.From.IOV(s.T, part))
			}
			var hdr uct.Packer
			if header > 0 {
				hdr = &s.packer
			}
			err := s.Endpoint.AMZcopy(s.ID, hdr, iov, s.Flags, s.completion())
			if header > 0 && accepted(err) != (s.packer.Calls == 1) {
				s.T.Fatalf("AMZcopy: %v after %d calls of Pack", err, s.packer.Calls)
			}
			return err
		},
	},
}

// Max returns the length of the longest message of this kind on an iface, at most 1 MiB.
func (k *Kind) Max(a *uct.IfaceAttr) int { return min(k.max(a), maxSize) }

// KindsOf returns the kinds that an iface supports.
func KindsOf(a *uct.IfaceAttr) []Kind {
	var list []Kind
	for _, k := range Kinds {
		if a.Flags&k.Flag != 0 {
			list = append(list, k)
		}
	}
	return list
}

// Sender sends active messages of any kind and checks the results of the calls.
type Sender struct {
	T        testing.TB
	From     *Host
	Endpoint uct.Endpoint
	ID       uct.AMID
	Flags    uct.SendFlags

	// Completion is given to the next operation; nil: none.
	Completion *Completion

	packer Packer
	iov    []uct.IOV
}

// Send sends msg and returns the transport's result. The caller must not change the bytes of a
// zcopy message before its completion.
func (s *Sender) Send(k *Kind, msg []byte) error {
	s.T.Helper()
	before := 0
	if s.Completion != nil {
		before = s.Completion.Fired
	}
	err := k.send(s, msg)
	if !accepted(err) && s.Completion != nil && s.Completion.Fired != before {
		s.T.Fatalf("%s: refused with %v, and its completion callback ran too", k.Name, err)
	}
	return err
}

func (s *Sender) completion() *uct.Completion {
	if s.Completion == nil {
		return nil
	}
	return &s.Completion.Completion
}

// Number sends a message of the kind's shortest useful length that starts with
// n, little-endian.
func (s *Sender) Number(k *Kind, n uint64) error {
	s.T.Helper()
	return s.Send(k, numbered(n, max(8, k.Min)))
}

// numbered returns a message of size bytes that starts with n.
func numbered(n uint64, size int) []byte {
	msg := Pattern(size, n)
	binary.LittleEndian.PutUint64(msg, n)
	return msg
}

// split cuts b into at most n parts, some of them empty when b is short.
func split(b []byte, n int) [][]byte {
	var parts [][]byte
	for ; n > 1; n-- {
		k := len(b) / n
		parts = append(parts, b[:k:k])
		b = b[k:]
	}
	return append(parts, b)
}
