package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// The commands for active messages.
func init() {
	maps.Copy(commands, map[string]command{
		"handle":  {2, (*server).handle},
		"amlimit": {0, (*server).amLimit},
		"am":      {8, (*server).am},
		"amnext":  {3, (*server).amNext},
		"amdata":  {2, (*server).amData},
		"amrecv":  {3, (*server).amRecv},
		"amdrop":  {0, (*server).amDrop},
	})
}

// activeMessages holds the messages that have arrived, in the order of their handlers' calls.
type activeMessages struct {
	waiting []*arrival
	current *arrival // message that the last amnext has taken
}

// arrival is an active message for which a handler was called. The handler reads the message before
// it returns, or keeps it.
type arrival struct {
	id      uint16
	header  []byte
	length  int
	offered bool
	reply   *ucp.Endpoint

	kept *ucp.AMMessage

	buffer *buffer // data that the handler receives; complete when handle is done
	handle *ucp.Request
	err    error
}

// releaseKept releases the kept messages before their worker is destroyed.
func (q *activeMessages) releaseKept() {
	for _, a := range append(q.waiting, q.current) {
		if a != nil && a.kept != nil {
			a.kept.Release()
			a.kept = nil
		}
	}
}

// arrived queues a message.
func (s *server) arrived(m *ucp.AMMessage) *arrival {
	a := &arrival{
		id: m.ID(), header: bytes.Clone(m.Header()), length: m.Len(), offered: m.Offered(), reply: m.Reply(),
	}
	s.active.waiting = append(s.active.waiting, a)
	return a
}

// handle runs the command "handle ID receive|keep|refuse|drop|none", which sets the handler of an
// active message id.
func (s *server) handle(args []string) (string, error) {
	n, err := strconv.ParseUint(args[0], 0, 16)
	if err != nil {
		return "", fmt.Errorf("bad number: %s", args[0])
	}
	params := ucp.AMHandlerParams{ID: uint16(n)}
	switch args[1] {
	case "receive":
		params.Handler = func(m *ucp.AMMessage) error {
			a := s.arrived(m)
			a.buffer, a.err = newBuffer("contig", a.length)
			if a.err == nil {
				a.handle, a.err = m.Recv(a.buffer.pieces[0], nil)
			}
			return nil
		}
	case "keep":
		params.Flags = ucp.AMPersistentData
		params.Handler = func(m *ucp.AMMessage) error {
			s.arrived(m).kept = m
			m.Keep()
			return nil
		}
	case "refuse":
		params.Handler = func(m *ucp.AMMessage) error {
			s.arrived(m)
			return ucs.ErrOutOfRange
		}
	case "drop":
		params.Handler = func(m *ucp.AMMessage) error {
			s.arrived(m)
			return nil
		}
	case "none":
	default:
		return "", fmt.Errorf("bad mode: %s", args[1])
	}
	return "", s.worker().SetAMHandler(params)
}

func (s *server) amLimit([]string) (string, error) {
	return strconv.Itoa(s.worker().Attr().MaxAMHeader), nil
}

var amFlags = map[string]ucp.AMSendFlags{
	"plain": 0, "reply": ucp.AMSendReply, "eager": ucp.AMSendEager, "rndv": ucp.AMSendRndv, "copy": ucp.AMSendCopyHeader,
}

// am runs the command "am REQ EP ID HEADER SIZE SEED LAYOUT FLAGS", which sends an active message.
func (s *server) am(args []string) (string, error) {
	ep, err := s.endpoint(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[2:5]...)
	if err != nil {
		return "", err
	}
	if n[1] > maxSize {
		return "", fmt.Errorf("bad header length: %d", n[1])
	}
	size := int(n[2])
	b, err := s.filled(args[6], size, args[5])
	if err != nil {
		return "", err
	}
	c, err := contents(args[5])
	if err != nil {
		return "", err
	}
	header := make([]byte, n[1])
	c.from(size).write(header)
	r := &request{buffer: b}
	if err := s.newRequest(args[0], r); err != nil {
		return "", err
	}
	bytes, params := b.argument(s.generic)
	for _, word := range strings.Split(args[7], ",") {
		flag, known := amFlags[word]
		if !known {
			return "", fmt.Errorf("bad flag: %s", word)
		}
		params.AMFlags |= flag
	}
	r.handle, r.err = ep.AMSend(uint16(n[0]), header, bytes, params)
	if params.AMFlags&ucp.AMSendCopyHeader != 0 {
		for i := range header {
			header[i] = filler
		}
	}
	return "", nil
}

// amNext runs the command "amnext EP SEED MS", which takes the oldest arrived active message in
// hand.
func (s *server) amNext(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", fmt.Errorf("bad number: %s", args[0])
	}
	c, err := contents(args[1])
	if err != nil {
		return "", err
	}
	ms, err := numbers(args[2])
	if err != nil {
		return "", err
	}
	q := &s.active
	if q.current != nil {
		return "", errors.New("there is a message in hand")
	}
	if err := s.progressUntil(milliseconds(ms[0]), func() bool { return len(q.waiting) > 0 }); err != nil {
		return "", err
	}
	a := q.waiting[0]
	q.waiting, q.current = q.waiting[1:], a
	where, reply := "here", "plain"
	if a.offered {
		where = "offered"
	}
	if a.reply != nil {
		reply = "reply"
		s.endpoints[n] = &endpoint{Endpoint: a.reply}
	}
	return fmt.Sprintf("%d %d %d %s %s %s", a.id, len(a.header), a.length, where, reply, c.from(a.length).compare(a.header)), nil
}

// inHand returns the active message that the last amnext has taken, and clears the field current.
func (s *server) inHand() (*arrival, error) {
	a := s.active.current
	if a == nil {
		return nil, errors.New("there is no message in hand")
	}
	s.active.current = nil
	return a, nil
}

// amData runs the command "amdata SEED MS", which returns the result of receiving the message in
// hand.
func (s *server) amData(args []string) (string, error) {
	a, err := s.inHand()
	if err != nil {
		return "", err
	}
	c, err := contents(args[0])
	if err != nil {
		return "", err
	}
	ms, err := numbers(args[1])
	if err != nil {
		return "", err
	}
	switch {
	case a.kept != nil && !a.offered:
		verdict := c.compare(a.kept.Data())
		a.kept.Release()
		return fmt.Sprintf("0 0x0 %d %s", a.length, verdict), nil
	case a.buffer == nil:
		return "", errors.New("there is no data")
	}
	if err := s.progressUntil(milliseconds(ms[0]), a.handle.Done); err != nil {
		return "", err
	}
	if a.handle != nil {
		a.err = a.handle.Err()
		a.handle.Free()
	}
	if a.err != nil {
		return fmt.Sprintf("%d 0x0 %d same", int(ucs.StatusOf(a.err)), a.length), nil
	}
	return fmt.Sprintf("0 0x0 %d %s", a.length, a.buffer.verify(c, a.length)), nil
}

// amRecv runs the command "amrecv REQ SIZE LAYOUT", which receives the kept data of the message in
// hand.
func (s *server) amRecv(args []string) (string, error) {
	n, err := numbers(args[1])
	if err != nil {
		return "", err
	}
	a, err := s.inHand()
	if err != nil {
		return "", err
	}
	if a.kept == nil {
		return "", errors.New("there is no kept data")
	}
	b, err := s.newBuffer(args[2], int(n[0]))
	if err != nil {
		return "", err
	}
	r := &request{buffer: b, isReceive: true, untagged: true}
	if err := s.newRequest(args[0], r); err != nil {
		return "", err
	}
	bytes, params := b.argument(s.generic)
	params.RecvLength = &r.info.Length
	r.handle, r.err = a.kept.Recv(bytes, params)
	return "", nil
}

func (s *server) amDrop([]string) (string, error) {
	a, err := s.inHand()
	if err == nil && a.kept != nil {
		a.kept.Release()
	}
	return "", err
}
