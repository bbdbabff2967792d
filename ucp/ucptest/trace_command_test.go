//go:build linux

package ucptest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// verbs are the commands. The comment of each method describes its arguments.
var verbs = map[string]func(c *conversation, a *arguments){
	"setup": (*conversation).setup, "open": (*conversation).open, "connect": (*conversation).connect,
	"send": (*conversation).send, "recv": (*conversation).recv, "peek": (*conversation).peek, "take": (*conversation).take,
	"window": (*conversation).window, "put": (*conversation).put, "get": (*conversation).get, "atomic": (*conversation).atomic,
	"flush": (*conversation).flush, "fence": (*conversation).fence, "close": (*conversation).closing, "shutdown": (*conversation).shutdown,
	"cancel": (*conversation).cancel, "kill": (*conversation).kill, "drop": (*conversation).drop, "fault": (*conversation).fault,
	"run": (*conversation).run, "step": (*conversation).step, "lanes": (*conversation).lanes, "counts": (*conversation).counts,
	"peer": (*conversation).peer, "inject": (*conversation).inject,
	"keepalive": (*conversation).keepalive, "unmap": (*conversation).unmap, "show": (*conversation).show, "compare": (*conversation).compare,
	"ssend": (*conversation).streamSend, "srecv": (*conversation).streamRecv, "sdata": (*conversation).streamData, "spoll": (*conversation).streamPoll,
	"am": (*conversation).am, "handle": (*conversation).handle, "unhandle": (*conversation).unhandle,
	"receive": (*conversation).receive, "release": (*conversation).release,
	"queue": (*conversation).queue, "next": (*conversation).nextActive,
	"state": (*conversation).state, "quit": (*conversation).quit, "expect": (*conversation).expect, "allow": (*conversation).allow,
}

// arguments are the arguments of a command.
type arguments struct {
	t     *testing.T
	line  string
	words []string
	flags map[string]string
}

// next returns the next argument that is neither flag nor setting.
func (a *arguments) next() string {
	a.t.Helper()
	if len(a.words) == 0 {
		a.t.Fatalf("%q lacks an argument", a.line)
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// flag reports whether an optional flag is present, and removes it.
func (a *arguments) flag(name string) bool {
	n := len(a.words)
	a.words = slices.DeleteFunc(a.words, func(w string) bool { return w == name })
	return len(a.words) < n
}

// setting returns the value of an optional key=value, and removes it.
func (a *arguments) setting(key, value string) string {
	if v, ok := a.flags[key]; ok {
		delete(a.flags, key)
		return v
	}
	return value
}

// number reads "4096", "64k", "1m" or "0x10".
func (a *arguments) number(s string) int {
	a.t.Helper()
	unit := 1
	switch {
	case strings.HasPrefix(s, "0x"):
	case strings.HasSuffix(s, "k"):
		s, unit = s[:len(s)-1], 1<<10
	case strings.HasSuffix(s, "m"):
		s, unit = s[:len(s)-1], 1<<20
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		a.t.Fatalf("%q: %v", a.line, err)
	}
	return int(n) * unit
}

// command runs a line.
func (c *conversation) command(line string) {
	c.t.Helper()
	a := &arguments{t: c.t, line: line, flags: make(map[string]string)}
	for _, w := range strings.Fields(line) {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.flags[k] = v
		} else {
			a.words = append(a.words, w)
		}
	}
	fn := verbs[a.next()]
	if fn == nil {
		c.t.Fatalf("%q: no such command", line)
	}
	fn(c, a)
	if len(a.words) > 0 || len(a.flags) > 0 {
		c.t.Fatalf("%q: %v, %v mean nothing", line, a.words, a.flags)
	}
	c.protocols()
}
