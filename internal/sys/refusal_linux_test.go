package sys

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWithRefusal: an error names possible causes if the call was refused, and is unchanged if it
// failed otherwise.
func TestWithRefusal(t *testing.T) {
	for _, e := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS} {
		err := WithRefusal("socket(2)", os.NewSyscallError("netlinkrib", e))
		if !errors.Is(err, e) || !strings.Contains(err.Error(), "seccomp") || !strings.Contains(err.Error(), "refuses socket(2)") {
			t.Errorf("%v: %v", e, err)
		}
	}
	if err := WithRefusal("socket(2)", unix.EMFILE); err != unix.EMFILE {
		t.Error(err)
	}
}
