//go:build linux

package interop

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// tag is a message tag, which prints in the form of the peers' commands.
type tag uint64

func (t tag) String() string { return fmt.Sprintf("0x%x", uint64(t)) }

const fullMask = ^tag(0)

// message is what a test sends: size bytes of the pattern that seed selects.
type message struct {
	tag  tag
	size int
	seed uint64
}

// messages makes messages that all differ.
type messages struct{ made uint64 }

func (m *messages) next(size int) message {
	m.made++
	return message{tag: tag(m.made)<<32 | 0xabcd, size: size, seed: m.made}
}

// received waits for a receive of m and compares the result with m.
func (p *peer) received(request int, m message) error {
	got, err := p.wait(request, m.seed)
	switch {
	case err != nil:
		return err
	case got.status != ucs.OK:
		return p.statusError("receive", got.status)
	case got.tag != m.tag:
		return fmt.Errorf("%s: received tag %v, sent %v", p.name, got.tag, m.tag)
	case got.length != m.size:
		return fmt.Errorf("%s: received %d bytes, sent %d", p.name, got.length, m.size)
	case got.verdict != "same":
		return fmt.Errorf("%s: received data: %s", p.name, got.verdict)
	}
	return nil
}

// Outcomes of an operation that are not failures.
var (
	errUnable      = errors.New("the C peer cannot do it, which is known")
	errNothingToDo = errors.New("nothing to do at this size")
)

// statusError returns a failure that a peer has reported.
func (p *peer) statusError(what string, status ucs.Status) error {
	return &refusal{who: p.name, what: what, status: status}
}
