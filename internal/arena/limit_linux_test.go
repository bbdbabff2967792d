package arena

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWithLimit(t *testing.T) {
	for cause, want := range map[error]string{
		unix.EAGAIN: `^mmap: resource temporarily unavailable: (\d+|any number of) bytes may be locked, raise the limit \(ulimit -l\)$`,
		unix.ENOMEM: `^mmap: cannot allocate memory: (\d+|any number of) bytes of addresses \(ulimit -v\) and \d+ mappings \(sysctl vm\.max_map_count\) are allowed`,
		unix.EINVAL: `^mmap: invalid argument$`,
	} {
		err := WithLimit(fmt.Errorf("mmap: %w", cause))
		if !errors.Is(err, cause) || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%v: %v, want %s", cause, err, want)
		}
	}
	if WithLimit(nil) != nil {
		t.Error("no error has become one")
	}
}
