package topo

import (
	"math"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ucx-go/ucx/internal/sys"
)

// Memory returns the number of bytes of memory that this process can use: the machine's memory, or
// the limit of the process's control groups if that is less. It returns 0 if neither is known. The
// value is read once.
func Memory() uint64 { return memory() }

var memory = sync.OnceValue(func() uint64 { return readMemory("/") })

// readMemory is Memory for a file system at root.
func readMemory(root string) uint64 {
	most := uint64(math.MaxUint64)
	for line := range strings.Lines(readSmall(filepath.Join(root, "proc/meminfo"))) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			f := strings.Fields(rest)
			if len(f) == 2 && f[1] == "kB" {
				if n, err := strconv.ParseUint(f[0], 10, 54); err == nil && n > 0 {
					most = n << 10
				}
			}
		}
	}
	// "0::/path" is the group of version 2, "5:memory:/path" one of version 1.
	for line := range strings.Lines(readSmall(filepath.Join(root, "proc/self/cgroup"))) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) != 3:
		case f[1] == "":
			most = min(most, groupLimit(filepath.Join(root, "sys/fs/cgroup"), f[2], "memory.max"),
				groupLimit(filepath.Join(root, "sys/fs/cgroup/unified"), f[2], "memory.max"))
		case strings.Contains(","+f[1]+",", ",memory,"):
			most = min(most, groupLimit(filepath.Join(root, "sys/fs/cgroup/memory"), f[2], "memory.limit_in_bytes"))
		}
	}
	if most == math.MaxUint64 {
		return 0
	}
	return most
}

// groupLimit returns the lowest limit of a group and its ancestors. In a container, group may be
// the path outside of the container; the group's files are then at the mount point.
func groupLimit(mount, group, file string) uint64 {
	most := uint64(math.MaxUint64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		text := strings.TrimSpace(readSmall(filepath.Join(mount, dir, file)))
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 { // or "max"
			most = min(most, n)
		}
		if dir == "/" {
			return most
		}
	}
}

// readSmall returns the contents of a file of the kernel, "" if it cannot be read.
func readSmall(name string) string {
	b, _ := sys.ReadFile(name)
	return string(b)
}
