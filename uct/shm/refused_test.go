//go:build linux

package shm

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// TestRefusedCalls: an error names the call that was refused and a cause, and mentions huge pages
// only for a segment that was to be in them.
func TestRefusedCalls(t *testing.T) {
	for _, c := range []struct {
		what   string
		err    error
		says   string
		silent string // not in the error
		status ucs.Status
	}{
		{"shmget", errShmget(4227072, false, unix.EPERM), "refuses shmget(2)", "huge", ucs.ErrShmemSegment},
		{"shmget", errShmget(4227072, false, unix.ENOSYS), "seccomp", "huge", ucs.ErrShmemSegment},
		{"shmget", errShmget(4227072, false, unix.ENOMEM), "4227072 bytes", "huge", ucs.ErrNoMemory},
		{"shmget in huge pages", errShmget(4227072, true, unix.EPERM), "vm.nr_hugepages", "refuses", ucs.ErrNoMemory},
		{"shmget in huge pages", errShmget(4227072, true, unix.ENOMEM), "vm.nr_hugepages", "refuses", ucs.ErrNoMemory},
		{"socket", errWakeSocket(unix.EPERM), "refuses socket(2)", "huge", ucs.ErrShmemSegment},
		{"socket", errWakeSocket(unix.EMFILE), "ulimit -n", "refuses", ucs.ErrNoMemory},
	} {
		if text := c.err.Error(); !strings.Contains(text, c.says) || strings.Contains(text, c.silent) || !errors.Is(c.err, c.status) {
			t.Errorf("%s: %q", c.what, text)
		}
	}
}
