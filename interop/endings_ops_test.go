//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ucx-go/ucx/ucs"
)

// endingOp is an operation of the table. Side a starts it toward side b.
type endingOp struct {
	name     string
	size     int
	phases   []string
	cancels  bool // can be canceled
	outlives bool // the table includes the death of a side

	prepare func(s *scene) error                 // before everything, may be nil
	start   func(s *scene) error                 // at a
	receive func(s *scene) error                 // at b; nil if b does nothing
	arrived func(s *scene) error                 // waits until b has seen it
	seen    func(s *scene) (string, bool, error) // what b has got, and whether that is final
	onEp    bool                                 // b needs its endpoint to receive
}

// The phases of operations that are received, in order: the peer has made no progress; it has the
// message, or an offer of it, but no receive; it has a receive, and has made no progress; it
// fetches, while the sender makes no progress; both have completed.
var (
	allPhases = []string{"unseen", "arrived", "matched"}
	offered   = []string{"unseen", "arrived", "fetching", "done"}
)

var endingOps = []endingOp{
	tagEnding("tag8", 8, "async", allPhases),
	tagEnding("tag20k", 20_000, "async", allPhases),
	tagEnding("tag2M", 2<<20, "async", offered),
	tagEnding("sync8", 8, "sync", allPhases),
	amEnding("am8", 8, "plain", allPhases[:1]),
	amEnding("am2M", 2<<20, "rndv", offered),
	streamEnding("stream8", 8, []string{"unseen", "matched"}),
	streamEnding("stream200k", 200_000, []string{"unseen", "matched"}),
	memoryEnding("put8", 8, []string{"unseen"}, startPut),
	memoryEnding("put1M", 1<<20, []string{"unseen", "done"}, startPut),
	memoryEnding("get1M", 1<<20, []string{"unseen"}, startGet),
	memoryEnding("post", 8, []string{"unseen"}, startAtomic("post")),
	memoryEnding("fetch", 8, []string{"unseen"}, startAtomic("fetch")),
	memoryEnding("flush", 1<<20, []string{"unseen"}, startFlush),
	{
		name: "tagrecv", size: 8, phases: []string{"posted"}, cancels: true, outlives: true,
		start: func(s *scene) (err error) {
			s.isReceive = true
			s.request, err = s.a.recv(s.m.tag, fullMask, s.m.size, "contig")
			return err
		},
		receive: func(s *scene) (err error) {
			s.got, err = s.b.send(s.ep, s.m, "contig", "async")
			return err
		},
		seen: lookAtSend, onEp: true,
	},
	{
		name: "streamrecv", size: 8, phases: []string{"posted"}, cancels: true, outlives: true,
		start: func(s *scene) error {
			s.isReceive = true
			s.request = s.a.request()
			return s.a.do("srecv", s.request, s.ep, s.m.size, "contig", "all")
		},
		receive: func(s *scene) error {
			s.got = s.b.request()
			return s.b.do("ssend", s.got, s.ep, s.m.size, s.m.seed, "contig")
		},
		seen: lookAtSend, onEp: true,
	},
}

// pending values of operations that have not completed.
const (
	waits   = "waits"
	nothing = "none"
)

func tagEnding(name string, size int, mode string, phases []string) endingOp {
	return endingOp{
		name: name, size: size, phases: phases, cancels: true, outlives: true,
		start: func(s *scene) (err error) {
			s.request, err = s.a.send(s.ep, s.m, "contig", mode)
			return err
		},
		receive: func(s *scene) (err error) {
			s.got, err = s.b.recv(s.m.tag, fullMask, s.m.size, "contig")
			return err
		},
		arrived: func(s *scene) error {
			_, err := s.b.probe(s.m.tag, "keep")
			return err
		},
		seen: lookAtReceive,
	}
}

const endingID = 5

func amEnding(name string, size int, flags string, phases []string) endingOp {
	next := func(s *scene, ms int64) error {
		values, err := s.b.command("amnext", s.ep, s.m.seed, ms)
		if err == nil {
			s.hand = values[3]
		}
		return err
	}
	take := func(s *scene) error {
		if s.hand != "offered" {
			return nil
		}
		s.got = s.b.request()
		return s.b.do("amrecv", s.got, s.m.size, "contig")
	}
	return endingOp{
		name: name, size: size, phases: phases, cancels: true, outlives: size > 8,
		prepare: func(s *scene) error { return s.b.do("handle", endingID, "keep") },
		start: func(s *scene) error {
			s.request = s.a.request()
			return s.a.do("am", s.request, s.ep, endingID, 0, s.m.size, s.m.seed, "contig", flags)
		},
		receive: func(s *scene) error {
			if s.hand == "" {
				return nil // posted when the message comes
			}
			return take(s)
		},
		arrived: func(s *scene) error { return next(s, operationLimit.Milliseconds()) },
		seen: func(s *scene) (string, bool, error) {
			if s.hand == "" {
				switch err := next(s, 0); {
				case errors.Is(err, errTimeout):
					return nothing, false, nil
				case err != nil:
					return "", false, err
				}
				if err := take(s); err != nil {
					return "", false, err
				}
			}
			if s.hand != "here" {
				return lookAtReceive(s)
			}
			values, err := s.b.command("amdata", s.m.seed, 0)
			if err != nil {
				return "", false, err
			}
			return verdict(values)
		},
	}
}

func streamEnding(name string, size int, phases []string) endingOp {
	return endingOp{
		name: name, size: size, phases: phases, cancels: true, outlives: size > 8,
		start: func(s *scene) error {
			s.request = s.a.request()
			return s.a.do("ssend", s.request, s.ep, s.m.size, s.m.seed, "contig")
		},
		receive: func(s *scene) error {
			s.got = s.b.request()
			return s.b.do("srecv", s.got, s.ep, s.m.size, "contig", "all")
		},
		seen: lookAtReceive, onEp: true,
	}
}

func memoryEnding(name string, size int, phases []string, start func(s *scene) error) endingOp {
	return endingOp{
		name: name, size: size, phases: phases, cancels: size > 8, outlives: size > 8 || name == "fetch",
		prepare: func(s *scene) error {
			seed := uint64(0)
			if name == "get1M" {
				seed = s.m.seed
			}
			values, err := s.b.command("map", s.ep, s.m.size, seed, own)
			if err != nil {
				return err
			}
			if s.addr, err = strconv.ParseUint(values[0], 0, 64); err != nil {
				return err
			}
			s.mapped = true
			return s.a.do("unpack", s.ep, s.ep, values[1])
		},
		start: start,
		seen: func(s *scene) (string, bool, error) {
			if name == "get1M" {
				return absent, true, nil
			}
			var values []string
			var err error
			want := "same"
			if name == "post" || name == "fetch" {
				want = fmt.Sprintf("%#x", filledWord+1)
				values, err = s.b.command("word", s.ep, 0, 8)
			} else {
				values, err = s.b.command("check", s.ep, s.m.seed, s.m.size)
			}
			if err != nil || len(values) != 1 {
				return "", false, fmt.Errorf("%q: %w", values, err)
			}
			if values[0] != want {
				return nothing, false, nil
			}
			return "whole", true, nil
		},
	}
}

// filledWord is the initial value of a word of memory.
const filledWord uint64 = 0xa5a5a5a5a5a5a5a5

func startPut(s *scene) error {
	s.request = s.a.request()
	return s.a.do("put", s.request, s.ep, s.ep, s.addr, s.m.size, s.m.seed)
}

func startGet(s *scene) error {
	s.request, s.isReceive = s.a.request(), true
	return s.a.do("get", s.request, s.ep, s.ep, s.addr, s.m.size)
}

func startAtomic(how string) func(s *scene) error {
	return func(s *scene) error {
		s.request = s.a.request()
		return s.a.do("atomic", s.request, s.ep, s.ep, s.addr, 8, "add", 1, 0, how)
	}
}

// startFlush starts a put and its flush.
func startFlush(s *scene) error {
	if err := startPut(s); err != nil {
		return err
	}
	s.request = s.a.request()
	return s.a.do("flush", s.request, s.ep)
}

// lookAtReceive returns the state of the receive at b.
func lookAtReceive(s *scene) (string, bool, error) { return s.b.look(s.got, s.m.seed, true) }

// lookAtSend returns the state of the send at b.
func lookAtSend(s *scene) (string, bool, error) { return s.b.look(s.got, 0, false) }

// look returns the state of a request; for a successful receive, whether its message is correct.
func (p *peer) look(request int, seed uint64, isReceive bool) (string, bool, error) {
	values, err := p.command("wait", request, seed, 0)
	switch {
	case errors.Is(err, errTimeout):
		return waits, false, nil
	case err != nil:
		return "", false, err
	case isReceive:
		return verdict(values)
	}
	r, err := parseResult(values)
	return statusName(r.status), true, err
}

// verdict parses the result of a receive.
func verdict(values []string) (string, bool, error) {
	r, err := parseResult(values)
	switch {
	case err != nil:
		return "", false, err
	case r.status != ucs.OK:
		return statusName(r.status), true, nil
	case r.verdict != "same":
		return r.verdict, true, nil
	}
	return "whole", true, nil
}

var statusNames = map[ucs.Status]string{
	ucs.OK: "ok", ucs.ErrCanceled: "canceled", ucs.ErrConnectionReset: "reset", ucs.ErrEndpointTimeout: "timeout",
	ucs.ErrNotConnected: "unconnected", ucs.ErrUnreachable: "unreachable", ucs.ErrInvalidParam: "invalid",
	ucs.ErrNoElem: "noelem", ucs.ErrRejected: "rejected", ucs.ErrIO: "io", ucs.ErrMessageTruncated: "truncated",
	ucs.ErrTimedOut: "timedout", ucs.ErrUnsupported: "unsupported", ucs.ErrBusy: "busy",
}

func statusName(s ucs.Status) string {
	if name, known := statusNames[s]; known {
		return name
	}
	return strconv.Itoa(int(s))
}
