package arena

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// WithLimit adds to an error of mmap or mlock the limit that the call has probably reached and the
// way to raise it. It returns other errors unchanged.
func WithLimit(err error) error {
	limit := func(which int) string {
		var l unix.Rlimit
		if unix.Getrlimit(which, &l) != nil || l.Cur == unix.RLIM_INFINITY {
			return "any number of"
		}
		return fmt.Sprint(l.Cur)
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w: %s bytes may be locked, raise the limit (ulimit -l)", err, limit(unix.RLIMIT_MEMLOCK))
	case errors.Is(err, unix.ENOMEM):
		most, _ := os.ReadFile("/proc/sys/vm/max_map_count")
		return fmt.Errorf("%w: %s bytes of addresses (ulimit -v) and %s mappings (sysctl vm.max_map_count) are allowed, "+
			"and sysctl vm.overcommit_memory limits committed memory",
			err, limit(unix.RLIMIT_AS), strings.TrimSpace(string(most)))
	}
	return err
}
