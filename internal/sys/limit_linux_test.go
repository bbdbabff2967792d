package sys

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWithLimit(t *testing.T) {
	for cause, want := range map[error]string{
		unix.EMFILE: `^open: too many open files: all \d+ descriptors of the process are in use, raise the limit \(ulimit -n\)$`,
		unix.ENFILE: `^open: too many open files in system: all \d+ files of the machine are open, raise the limit \(sysctl fs\.file-max\)$`,
		unix.ENOENT: `^open: no such file or directory$`,
	} {
		err := WithLimit(fmt.Errorf("open: %w", cause))
		if !errors.Is(err, cause) || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%v: %v, want %s", cause, err, want)
		}
	}
	if WithLimit(nil) != nil {
		t.Error("no error has become one")
	}
}
