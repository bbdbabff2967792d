//go:build linux

package interop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// Operations that C UCX cannot do are listed, cell by cell, and are no failures of this module. The
// same error in any other cell means that Go has sent or offered something wrong, and is a failure.

// inability is cells of the matrix in which C reports that it does not support the operation.
type inability struct {
	release    string   // of the C peer that starts the operation
	sides      sides    // which of the two peers that is
	setting    string   // of the columns, empty for all
	routes     []string // nil for all
	operations []string
	smallest   int // minimum size: smaller ones work
	status     ucs.Status
	aborts     bool   // the process aborts or hangs, so it is not run
	toward     string // release of the other side, empty for all
}

// sides distinguishes the peer that a setting is for from the peer in the place of Go, which is C,
// too, in TestControl.
type sides uint8

const (
	theirSide sides = iota // settings of the other side only
	eitherSide
)

var (
	networkRoutes = []string{"lo", "eth", "both"}
	peerRoutes    = []string{posix.name, sysv.name, posixCMA.name, allTransports.name} // in error mode peer
)

var inabilities = []inability{
	// 1.13 has no flag for a copied header; its peer reports that itself.
	{"1.13", eitherSide, "", nil, []string{"am copy header"}, 0, ucs.ErrUnsupported, false, ""},

	// 1.13 with UCX_PROTO_ENABLE has no protocol for offered active messages, and aborts while
	// looking for one, also with a C receiver (proto_reconfig.c).
	{release: "1.13", sides: theirSide, setting: "proto=y", aborts: true,
		operations: []string{"am rndv", "am answer", "am kept rndv", "am refused", "am burst"}},

	// They accept no header of the greatest length that is longer than the data.
	{release: "1.13", sides: theirSide, setting: "proto=y", aborts: true, smallest: 200,
		routes: []string{posix.name, posixCMA.name}, operations: []string{"am headers"}},

	// Over RDMA, 1.22 never sends what 1.13 expects in pieces: an offer received into memory that
	// is not contiguous.
	{release: "1.22", toward: "1.13", sides: eitherSide, routes: rdmaTransports, aborts: true,
		operations: []string{"am kept rndv"}},
	{release: "1.22", toward: "1.13", sides: eitherSide, routes: rdmaTransports, aborts: true, smallest: 1 << 18,
		operations: []string{"recv iov", "iov sync", "generic"}},

	// 1.22 without UCX_PROTO_ENABLE has no one-sided access: no protocol does a put or a get.
	{"1.22", theirSide, "proto=n", slices.Concat(networkRoutes, []string{posix.name, posixCMA.name}),
		[]string{"put", "get", "put alloc", "get alloc"}, 1, ucs.ErrUnsupported, false, ""},
	{"1.22", theirSide, "proto=n", slices.Concat(networkRoutes, []string{posix.name, posixCMA.name}),
		[]string{"puts and gets", "puts, gets alloc", "fence", "fence alloc"}, 0, ucs.ErrUnsupported, false, ""},

	// 1.22 has no atomics by messages in error mode peer, and cancels them.
	{"1.22", eitherSide, "error mode peer", slices.Concat(networkRoutes, peerRoutes, rdmaTransports),
		[]string{"atomics", "atomics alloc"}, 8, ucs.ErrCanceled, false, ""},
	{"1.22", eitherSide, "error mode peer", slices.Concat(networkRoutes, peerRoutes, rdmaTransports),
		[]string{"fence", "fence alloc"}, 0, ucs.ErrCanceled, false, ""}, // they end with an atomic
}

// unable returns what is expected of a cell: nil if C must support it.
func unable(list []inability, from, to program, theirs bool, setting, route, operation string, size int) *inability {
	for i := range list {
		u := &list[i]
		if !from.ours && majorMinor(from.name) == u.release && (u.toward == "" || majorMinor(to.name) == u.toward) && (theirs || u.sides == eitherSide) &&
			(u.setting == "" || setting == u.setting) && (u.routes == nil || slices.Contains(u.routes, route)) && slices.Contains(u.operations, operation) && size >= u.smallest {
			return u
		}
	}
	return nil
}

// refusal is the status of a failed operation, and the peer that reported it.
type refusal struct {
	who, what string
	status    ucs.Status
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: %s: %v", r.who, r.what, r.status) }
func (r *refusal) Unwrap() error { return r.status }

// judge turns the result of an operation into an outcome: nil and errNothingToDo are unchanged, an
// expected refusal of C is errUnable, and anything else is a failure, even an unexpected success.
func (u *inability) judge(from string, err error) error {
	var r *refusal
	switch {
	case errors.Is(err, errNothingToDo):
		return err
	case u == nil:
		return err
	case err == nil:
		return fmt.Errorf("%s does what the list of its inabilities says it cannot: remove it there", from)
	case errors.As(err, &r) && strings.HasPrefix(from, r.who) && r.status == u.status:
		return errUnable
	}
	return err
}

// TestJudge checks that only the listed status is excused, in the listed cells, from the peer that
// starts the operation.
func TestJudge(t *testing.T) {
	list := []inability{
		{"1.22", theirSide, "s", []string{"r"}, []string{"put"}, 1, ucs.ErrUnsupported, false, ""},
		{"1.22", eitherSide, "m", []string{"r"}, []string{"add"}, 0, ucs.ErrCanceled, false, ""},
		{"1.22", eitherSide, "", nil, []string{"copy"}, 0, ucs.ErrUnsupported, false, ""},
		{"1.22", eitherSide, "", nil, []string{"offer"}, 0, ucs.ErrUnsupported, false, "1.13"},
	}
	c, old, ours := program{name: "C 1.22.0"}, program{name: "C 1.13.1"}, program{name: "Go", ours: true}
	says := func(who string, status ucs.Status) error {
		return errors.Join(fmt.Errorf("around: %w", &refusal{who, "put", status}), errors.New("what it said last"))
	}
	refused := says(c.name, ucs.ErrUnsupported)
	for _, x := range []struct {
		name      string
		from      program
		theirs    bool
		setting   string
		route     string
		operation string
		size      int
		err       error
		want      error // nil: a failure
	}{
		{"expected", c, true, "s", "r", "put", 8, refused, errUnable},
		{"nothing to do", c, true, "s", "r", "put", 8, errNothingToDo, errNothingToDo},
		{"another status", c, true, "s", "r", "put", 8, says(c.name, ucs.ErrCanceled), nil},
		{"said by the target", c, true, "s", "r", "put", 8, says(ours.name, ucs.ErrUnsupported), nil},
		{"something else", c, true, "s", "r", "put", 8, errTimeout, nil},
		{"it works", c, true, "s", "r", "put", 8, nil, nil},
		{"smaller", c, true, "s", "r", "put", 0, refused, nil},
		{"another operation", c, true, "s", "r", "get", 8, refused, nil},
		{"another route", c, true, "s", "q", "put", 8, refused, nil},
		{"another setting", c, true, "t", "r", "put", 8, refused, nil},
		{"another release", old, true, "s", "r", "put", 8, says(old.name, ucs.ErrUnsupported), nil},
		{"we start it", ours, true, "s", "r", "put", 8, says(ours.name, ucs.ErrUnsupported), nil},
		{"the other side", c, false, "s", "r", "put", 8, refused, nil},
		{"everywhere", c, false, "t", "q", "copy", 8, refused, errUnable},
		{"either side", c, false, "m", "r", "add", 0, says(c.name, ucs.ErrCanceled), errUnable},
	} {
		got := unable(list, x.from, ours, x.theirs, x.setting, x.route, x.operation, x.size).judge(x.from.name, x.err)
		if x.want != nil && !errors.Is(got, x.want) || x.want == nil && (got == nil || errors.Is(got, errUnable)) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
	if err := unable(list, old, ours, true, "s", "r", "put", 8).judge(old.name, nil); err != nil {
		t.Errorf("what works and may: %v", err)
	}
	for _, to := range []program{old, c, ours} {
		if got, want := unable(list, c, to, true, "s", "r", "offer", 8) != nil, to.name == old.name; got != want {
			t.Errorf("toward %s: %v", to.name, got)
		}
	}
}
