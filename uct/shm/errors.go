//go:build linux

package shm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// errCreate returns an error that says why a file of size bytes could not be created and what
// helps.
func errCreate(call, dir string, size int, err error) error {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("shm: %s: %w: %w", call, sys.WithLimit(err), ucs.ErrNoMemory)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		var st unix.Statfs_t
		unix.Statfs(dir, &st)
		return fmt.Errorf("shm: %s: %w: need %d bytes, %s has %d free; enlarge it (mount -o remount,size=...; "+
			"docker --shm-size) or set UCX_POSIX_USE_PROC_LINK=y, which does not need it: %w",
			call, err, size, dir, st.Bavail*uint64(st.Bsize), ucs.ErrNoMemory)
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("shm: %s: %w: %s must be a directory this user may write to; set UCX_POSIX_DIR, "+
			"or UCX_POSIX_USE_PROC_LINK=y, which does not need it: %w", call, err, dir, ucs.ErrShmemSegment)
	case errors.Is(err, unix.EFBIG):
		var l unix.Rlimit
		unix.Getrlimit(unix.RLIMIT_FSIZE, &l)
		return fmt.Errorf("shm: %s: %w: need %d bytes, the limit of a file is %d (ulimit -f): %w",
			call, err, size, l.Cur, ucs.ErrNoMemory)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("shm: %s: %w: need %d bytes: %w", call, err, size, ucs.ErrNoMemory)
	}
	return fmt.Errorf("shm: %s: %w: %w", call, err, ucs.ErrShmemSegment)
}

// errMap returns an error that says why a segment could not be mapped.
func errMap(o segmentOptions, err error) error {
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("shm: %d bytes at %#x: something else is mapped there: %w", o.size, o.addr, ucs.ErrBusy)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("shm: mapping %d bytes: %w: %w", o.size, arena.WithLimit(err), ucs.ErrNoMemory)
	}
	return fmt.Errorf("shm: mapping %d bytes at %#x: %w: %w", o.size, o.addr, err, ucs.ErrShmemSegment)
}

// errWakeSocket returns an error that says why there is no socket for wakeups.
func errWakeSocket(err error) error {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return errCreate("socket", defaultDir, 0, err)
	}
	return fmt.Errorf("shm: a socket for wakeups: %w: %w", sys.WithRefusal("socket(2) of the family unix", err), ucs.ErrShmemSegment)
}

// errShmget returns an error that names the limit that a new System V segment has reached, or what
// refuses the segment. huge says that the segment was to have huge pages: only then can the reason
// be that there are no huge pages.
func errShmget(size int, huge bool, err error) error {
	switch {
	case !huge && errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("shm: shmget: %w: need %d bytes: %w", err, size, ucs.ErrNoMemory)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EACCES), !huge && errors.Is(err, unix.EPERM):
		return fmt.Errorf("shm: shmget of %d bytes: %w: %w", size, sys.WithRefusal("shmget(2)", err), ucs.ErrShmemSegment)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("shm: shmget: %w: need %d bytes, at most %d are allowed (sysctl kernel.shmmax): %w",
			err, size, readLimit("/proc/sys/kernel/shmmax", 0), ucs.ErrNoMemory)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("shm: shmget: %w: need one segment of %d bytes, at most %d segments and %d pages are allowed "+
			"(sysctl kernel.shmmni, kernel.shmall; ipcs -m lists them): %w", err, size,
			readLimit("/proc/sys/kernel/shmmni", 0), readLimit("/proc/sys/kernel/shmall", 0), ucs.ErrNoMemory)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EPERM):
		return fmt.Errorf("shm: shmget: %w: need %d bytes, %d huge pages of %d bytes are free; sysctl vm.nr_hugepages and "+
			"vm.hugetlb_shm_group limit them, a seccomp filter may refuse shmget(2), UCX_SYSV_HUGETLB_MODE=n disables them: %w",
			err, size, memInfo("HugePages_Free"), hugePageSize(), ucs.ErrNoMemory)
	}
	return fmt.Errorf("shm: shmget of %d bytes: %w: %w", size, err, ucs.ErrShmemSegment)
}

// errShm returns an error that says why a peer's System V segment cannot be used.
func errShm(doing string, id uint64, err error) error {
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EIDRM):
		return fmt.Errorf("%s System V segment %d: %w: the peer has ended, or is in another IPC namespace: %w",
			doing, id, err, ucs.ErrUnreachable)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s System V segment %d: %w: both processes must belong to one user: %w",
			doing, id, err, ucs.ErrUnreachable)
	}
	return fmt.Errorf("%s System V segment %d: %w: %w", doing, id, err, ucs.ErrUnreachable)
}

// readLimit reads a number from a file in /proc. It returns otherwise if it cannot read one.
func readLimit(path string, otherwise uint64) uint64 {
	text, err := sys.ReadFile(path)
	if err != nil {
		return otherwise
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// hugePageSize returns the size of the system's huge pages in bytes, 0 if there are none.
var hugePageSize = sync.OnceValue(func() int { return max(memInfo("Hugepagesize"), 0) << 10 })

// memInfo returns a number from /proc/meminfo, in KiB if the number is an amount of memory; 0
// if the key is not there.
func memInfo(key string) int {
	text, _ := sys.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB")))
			return n
		}
	}
	return 0
}

// errTruncated returns the error for a fault at addr in memory that the peer has truncated.
func errTruncated(addr uint64) error {
	return statuserr.Errorf(ucs.ErrConnectionReset, "shm: the peer has truncated its shared memory: fault at %#x", addr)
}

//go:noinline
func errEnded(pid int) error {
	return statuserr.Errorf(ucs.ErrConnectionReset, "shm: process %d has ended", pid)
}

func errClosed() error {
	return statuserr.Errorf(ucs.ErrConnectionReset, "shm: the peer has closed its ring")
}
