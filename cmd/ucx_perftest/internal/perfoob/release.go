//go:build linux

package perfoob

import "fmt"

// Release is a release of C UCX, whose form of the protocol is used.
type Release uint8

// Releases of C UCX whose protocols differ.
const (
	Release113 Release = iota // 1.13
	Release122                // 1.22
	numReleases
)

// ParseRelease reads "1.13" or "1.22", with or without a patch number.
func ParseRelease(s string) (Release, error) {
	for r := Release(0); r < numReleases; r++ {
		name := r.String()
		if s == name || len(s) > len(name) && s[:len(name)] == name && s[len(name)] == '.' {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown peer release %q, need 1.13 or 1.22", s)
}

// String returns "1.13" or "1.22".
func (r Release) String() string {
	switch r {
	case Release113:
		return "1.13"
	case Release122:
		return "1.22"
	}
	return fmt.Sprintf("release %d", uint8(r))
}

// ParamsLen returns the size of the parameter structure.
func (r Release) ParamsLen() int { return layouts[r].size }

// MaxInfo is the largest endpoint information that the release accepts from
// one thread (ADDR_BUF_SIZE in lib/libperf_int.h).
func (r Release) MaxInfo() int {
	if r == Release113 {
		return 2048
	}
	return 4096
}

// StreamAck reports whether the receiver of a stream test acknowledges the last message with a
// one-byte message, for which the sender waits (ucp_perf_test_runner::send_ack in
// lib/ucp_tests.cc).
func (r Release) StreamAck() bool { return r >= Release122 }
