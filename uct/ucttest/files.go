package ucttest

import "golang.org/x/sys/unix"

// Files returns how many descriptors the process may have open at once, for tests
// that open as many as they can.
func Files() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil || r.Cur > 1<<30 {
		return 1 << 30
	}
	return int(r.Cur)
}
