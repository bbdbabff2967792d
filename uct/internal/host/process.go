//go:build linux

package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// Process identifies a process by its id in this PID namespace and its start time, so that a
// later process with the same id is a different Process.
type Process struct {
	PID   int
	Start uint64 // field 22 of /proc/PID/stat, clock ticks since boot
}

// MaxPID is the largest process id of the kernel (PID_MAX_LIMIT in linux/threads.h).
const MaxPID = 1 << 22

// Self returns the calling process.
func Self() (Process, error) { return Find(os.Getpid()) }

// Find returns the process that currently has the id pid, which may come from a peer. If the
// process is dead, or is not visible in /proc of the calling process, the error matches
// ucs.ErrUnreachable.
func Find(pid int) (Process, error) {
	if pid <= 0 || pid > MaxPID {
		return Process{}, fmt.Errorf("no process has the id %d: %w", pid, ucs.ErrUnreachable)
	}
	st, e := readStat(pid)
	switch {
	case e == unix.ENOENT || e == unix.ESRCH:
		return Process{}, fmt.Errorf("process %d is not visible here: it has ended, "+
			"or is in another PID namespace, or /proc hides it (hidepid): %w", pid, ucs.ErrUnreachable)
	case e != 0:
		return Process{}, fmt.Errorf("/proc/%d/stat: %w: %w", pid, sys.WithLimit(e), ucs.ErrUnreachable)
	case st.dead():
		return Process{}, fmt.Errorf("process %d has ended: %w", pid, ucs.ErrUnreachable)
	}
	return Process{PID: pid, Start: st.start}, nil
}

// Alive reports whether the process still runs; a stopped process counts as running. If Alive
// cannot find out, for example because no descriptor is free, it returns true. It allocates
// nothing and makes three system calls.
func (p Process) Alive() bool {
	st, e := readStat(p.PID)
	switch e {
	case 0:
		return st.start == p.Start && !st.dead()
	case unix.ENOENT, unix.ESRCH:
		return false
	}
	return true
}

// stat holds the fields of /proc/PID/stat that this package uses.
type stat struct {
	state   byte
	threads uint64
	start   uint64
}

// dead reports whether the process has exited and has not been waited for. A process whose
// first thread has ended is in the same state while other threads run, so the number of threads
// is checked.
func (s *stat) dead() bool {
	return (s.state == 'Z' || s.state == 'X') && s.threads <= 1
}

// statLen exceeds the length of the fields up to the start time: a name of at most 64 bytes and
// 21 numbers.
const statLen = 512

// readStat reads /proc/PID/stat. For malformed text it returns unix.EPROTO.
func readStat(pid int) (stat, unix.Errno) {
	var path [32]byte
	var text [statLen]byte
	b := append(path[:0], "/proc/"...)
	b = strconv.AppendInt(b, int64(pid), 10)
	b = append(b, "/stat\x00"...)
	n, e := readFile(b, text[:])
	if e != 0 {
		return stat{}, e
	}
	st, ok := parseStat(text[:n])
	if !ok {
		return stat{}, unix.EPROTO
	}
	return st, 0
}

// parseStat parses the beginning of /proc/PID/stat (proc_pid_stat(5)). The name of the program,
// in parentheses, may contain any character, including parentheses.
func parseStat(text []byte) (st stat, ok bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, false
	}
	rest := text[end+1:]
	// Field 3, the state, follows the name.
	for field := 2; len(rest) > 0; {
		end := bytes.IndexByte(rest, ' ')
		if end < 0 {
			end = len(rest)
		}
		word := rest[:end]
		if end > 0 {
			field++
		}
		switch {
		case end == 0:
		case field == 3:
			st.state = word[0]
		case field == 20:
			if st.threads, ok = parseNumber(word); !ok {
				return stat{}, false
			}
		case field == 22:
			st.start, ok = parseNumber(word)
			// At the end of the text the number may be truncated.
			return st, ok && end < len(rest)
		}
		rest = rest[min(end+1, len(rest)):]
	}
	return stat{}, false
}

// parseNumber is like strconv.ParseUint, without the conversion to a string.
func parseNumber(word []byte) (n uint64, ok bool) {
	for _, c := range word {
		if c < '0' || c > '9' || n > (1<<64-1)/10 {
			return 0, false
		}
		d := uint64(c - '0')
		if n*10 > 1<<64-1-d {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(word) > 0
}

// OtherNetwork reports whether the process is, or may be, in another network namespace than the
// caller. The kernel shows the namespaces of a process only to callers that may trace it, which
// excludes processes in another user namespace. Any process may stat the files in
// /proc/PID/net, which are different files in each network namespace.
func (p Process) OtherNetwork() bool {
	dir := "/proc/" + strconv.Itoa(p.PID)
	own, err := os.Readlink("/proc/self/ns/net")
	if err == nil {
		var theirs string
		if theirs, err = os.Readlink(dir + "/ns/net"); err == nil {
			return own != theirs
		}
	}
	var mine, its unix.Stat_t
	if unix.Stat("/proc/self/net/unix", &mine) != nil || unix.Stat(dir+"/net/unix", &its) != nil {
		return true
	}
	return mine.Ino != its.Ino || mine.Dev != its.Dev
}
