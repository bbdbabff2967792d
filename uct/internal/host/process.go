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

// Process is one run of a process: its number in this PID namespace and when it
// started, so that another process that gets the number later is told apart.
type Process struct {
	PID   int
	Start uint64 // field 22 of /proc/PID/stat, clock ticks since boot
}

// MaxPID is the largest process number the kernel gives (PID_MAX_LIMIT in
// linux/threads.h).
const MaxPID = 1 << 22

// Self is the calling process.
func Self() (Process, error) { return Find(os.Getpid()) }

// Find identifies the process that has a number now, which may come from a peer.
// A process that is dead, or not visible in /proc of this one, gives an error
// that matches ucs.ErrUnreachable.
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

// Alive reports whether the process still runs; one that is stopped does. If
// that cannot be found out, for lack of descriptors for example, it counts as
// alive. It allocates nothing and makes three system calls.
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

// stat is what matters of /proc/PID/stat.
type stat struct {
	state   byte
	threads uint64
	start   uint64
}

// dead reports whether the process runs no more but has not been waited for. A
// process whose first thread has ended looks so too while its others run.
func (s *stat) dead() bool {
	return (s.state == 'Z' || s.state == 'X') && s.threads <= 1
}

// statLen is more than the fields up to the start time take: a name of at most
// 64 bytes and 21 numbers.
const statLen = 512

// readStat reads /proc/PID/stat. Text that is not understood gives unix.EPROTO.
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

// parseStat reads the beginning of /proc/PID/stat (proc_pid_stat(5)). The name
// of the program, in parentheses, may contain anything, parentheses as well.
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
			// At the end of the text it may be half a number.
			return st, ok && end < len(rest)
		}
		rest = rest[min(end+1, len(rest)):]
	}
	return stat{}, false
}

// parseNumber is strconv.ParseUint without a string.
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

// OtherNetwork reports whether a process is in another network namespace than
// this one, or may be. The kernel names the namespaces of processes only to whom it
// lets trace them, which excludes those in another user namespace. The files in
// /proc/PID/net, which all may look at, are others in each network namespace.
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
