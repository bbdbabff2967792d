package log

import (
	"path"
	"runtime"
	"strings"
)

// module is the prefix of the names of this module's packages.
const module = "github.com/ucx-go/ucx/"

// SetFileFilter makes the default logger print only messages from source files that match a pattern
// as in path.Match, by their name (rndv_*.go) or with their package (ucp/*, uct/tcp/*). "*" and ""
// mean all files. A logger that the program has set is not affected. Any goroutine may call it.
func SetFileFilter(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return err
	}
	if pattern == "*" {
		pattern = ""
	}
	change(func(s *state) { s.files = pattern })
	return nil
}

// wanted reports whether the source file that logs the message matches the filter of SetFileFilter.
// Without a filter it costs nothing.
func (s *state) wanted() bool {
	if s.files == "" {
		return true
	}
	file := caller()
	if fits, _ := path.Match(s.files, file); fits {
		return true
	}
	fits, _ := path.Match(s.files, path.Base(file))
	return fits
}

// caller returns the source file that calls this package, with the path of its package within the
// module, for example "ucp/worker.go".
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		pkg := packageOf(f.Function)
		if pkg != module+"ucs/log" || !more {
			return path.Join(strings.TrimPrefix(pkg, module), path.Base(f.File))
		}
	}
}

// packageOf returns the package in a function's name: "example.com/a/b.(*T).F" gives
// "example.com/a/b".
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return function[:slash] + name
}
