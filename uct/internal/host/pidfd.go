//go:build linux

package host

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/log"
)

// Descriptors of processes are a help, and may not be what a program runs out of
// descriptors for: they take a quarter of those that there may be, and none of the last
// quarter.
const share = 4

var (
	descriptors atomic.Int64 // that there are, of all watchers
	shortage    atomic.Bool  // was logged
)

// openProcess returns a descriptor that becomes readable when the process exits, or -1
// where there is none, and whether the process has exited already. Its number may be
// another one's by now: what the descriptor is of has to have the number where the process
// was found, in /proc, and the process has to be there still.
func openProcess(p Process) (fd int, exited bool) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return -1, false
	}
	if n := descriptors.Add(1); uint64(n) > l.Cur/share {
		descriptors.Add(-1)
		warnShortage()
		return -1, false
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		descriptors.Add(-1)
		if err == unix.EMFILE || err == unix.ENFILE {
			warnShortage()
		}
		return -1, err == unix.ESRCH && !p.Alive()
	}
	if uint64(fd) >= l.Cur-l.Cur/share {
		closeProcess(fd)
		warnShortage()
		return -1, false
	}
	if alive := p.Alive(); !alive || !isOf(fd, p.PID) {
		closeProcess(fd)
		return -1, !alive
	}
	return fd, false
}

func closeProcess(fd int) {
	unix.Close(fd)
	descriptors.Add(-1)
}

// warnShortage says, once, that there are few descriptors.
func warnShortage() {
	if !shortage.Swap(true) {
		log.Warn("few descriptors are left: exits of some shared-memory peers are detected only by the keepalive; raise the limit (ulimit -n)",
			zap.Int64("watched processes", descriptors.Load()))
	}
}

// isOf reports whether a descriptor is of the process with a number in /proc, which
// could be that of another PID namespace. A kernel that does not tell is believed.
func isOf(fd, pid int) bool {
	var path [48]byte
	b := append(strconv.AppendInt(append(path[:0], "/proc/self/fdinfo/"...), int64(fd), 10), 0)
	var text [512]byte
	n, e := readFile(b, text[:])
	if e != 0 {
		return true
	}
	_, rest, ok := bytes.Cut(text[:n], []byte("\nPid:"))
	if !ok {
		return true
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	got, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	return err != nil || got == pid
}
