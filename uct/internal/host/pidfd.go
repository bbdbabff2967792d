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

// maxShare bounds the use of process descriptors. They are optional, and must not exhaust the
// descriptors of the program: the watchers use at most a quarter of the descriptor limit
// (1/share), and no descriptor number in the last quarter.
const maxShare = 4

var (
	descriptors atomic.Int64 // open process descriptors of all watchers
	shortage    atomic.Bool  // the shortage was logged
)

// openProcess returns a descriptor that becomes readable when the process exits, or -1 if there
// is none, and whether the process has exited already. Another process may have the process id
// by now, so openProcess checks two things after opening the descriptor: the descriptor refers
// to the process with this id in the PID namespace of /proc, and the process is still alive.
func openProcess(p Process) (fd int, exited bool) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return -1, false
	}
	if n := descriptors.Add(1); uint64(n) > l.Cur/maxShare {
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
	if uint64(fd) >= l.Cur-l.Cur/maxShare {
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

// warnShortage logs once that few descriptors are left.
func warnShortage() {
	if !shortage.Swap(true) {
		log.Warn("few descriptors are left: exits of some shared-memory peers are detected only by the keepalive; raise the limit (ulimit -n)",
			zap.Int64("watched processes", descriptors.Load()))
	}
}

// isOf reports whether a descriptor refers to the process with this id in /proc, which may be
// mounted for another PID namespace. If the kernel does not report the id, isOf returns true.
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
