//go:build linux

package shm

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs/config"
)

// noSegments fails the test if it leaves segments behind: files, System V segments created by this
// process, or mappings of either.
func noSegments(t testing.TB) {
	t.Helper()
	before := segments(t)
	t.Cleanup(func() {
		for s := range segments(t) {
			if !before[s] {
				t.Errorf("left behind: %s", s)
			}
		}
	})
}

// needSegments skips the test of a transport of System V if no segment can be created.
func needSegments(t testing.TB, transport string) {
	t.Helper()
	if transport != sysvName {
		return
	}
	m := &sysv{huge: config.No}
	s, err := m.create(segmentOptions{size: pageSize})
	needtest.Refused(t, err)
	if err == nil {
		m.destroy(s)
	}
}

// segments lists the segments and mappings that exist.
func segments(t testing.TB) map[string]bool {
	t.Helper()
	list := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join(defaultDir, "ucx_shm_posix_*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var st unix.Stat_t
		// Files of other processes do not count. Those of this process are open in it.
		if n, ok := strings.CutPrefix(filepath.Base(f), "ucx_shm_posix_8"); ok && len(n) >= 8 && unix.Stat(f, &st) == nil && openHere(&st) {
			list[f] = true
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(maps), "\n") {
		f := strings.Fields(line)
		if len(f) > 5 && (strings.Contains(line, "ucx_") || strings.Contains(f[5], "/SYSV")) {
			list["mapping "+line] = true
		}
	}
	sysv, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(sysv), "\n")[1:] {
		// key shmid perms size cpid ...
		if f := strings.Fields(line); len(f) > 4 && f[4] == strconv.Itoa(os.Getpid()) {
			list["System V segment "+f[1]] = true
		}
	}
	return list
}

// openHere reports whether this process has the file open.
func openHere(st *unix.Stat_t) bool {
	for fd := range 1024 {
		var have unix.Stat_t
		if unix.Fstat(fd, &have) == nil && have.Dev == st.Dev && have.Ino == st.Ino {
			return true
		}
	}
	return false
}
