//go:build linux

package verbstest

import "syscall"

// Errnos are the failures to come of a kernel that is made up, by the name of a
// call; this one and rdmacmtest have them. The zero value has none.
// It is for one goroutine at a time.
type Errnos struct {
	next map[string]*failure
}

type failure struct {
	skip  int
	errno syscall.Errno
}

// Fail makes a call fail once, after it has been let through skip times.
func (e *Errnos) Fail(name string, skip int, errno syscall.Errno) {
	if e.next == nil {
		e.next = make(map[string]*failure)
	}
	e.next[name] = &failure{skip: skip, errno: errno}
}

// Take is what a call fails with now, 0 for not at all.
func (e *Errnos) Take(name string) syscall.Errno {
	f := e.next[name]
	if f == nil {
		return 0
	}
	if f.skip > 0 {
		f.skip--
		return 0
	}
	delete(e.next, name)
	return f.errno
}

// has reports whether a failure of a call is to come.
func (e *Errnos) has(name string) bool { return e.next[name] != nil }
