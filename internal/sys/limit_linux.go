package sys

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// WithRefusal adds to a permission error the likely cause, a seccomp filter or a security module.
// It is for calls, named by what, that need no rights. It returns other errors unchanged.
func WithRefusal(what string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: a seccomp filter or a security module of this process, or of its container, refuses %s; allow it there", err, what)
	}
	return err
}

// WithLimit adds to the error of a call that reached the limit of open files, of the process or of
// the machine, the limit and the way to raise it. It returns other errors unchanged.
func WithLimit(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		var l unix.Rlimit
		unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
		return fmt.Errorf("%w: all %d descriptors of the process are in use, raise the limit (ulimit -n)", err, l.Cur)
	case errors.Is(err, unix.ENFILE):
		most, _ := os.ReadFile("/proc/sys/fs/file-max")
		return fmt.Errorf("%w: all %s files of the machine are open, raise the limit (sysctl fs.file-max)", err, strings.TrimSpace(string(most)))
	}
	return err
}
