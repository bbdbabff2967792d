//go:build linux

package sockdiag

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"github.com/ucx-go/ucx/internal/sys"
)

// HeldBy reports whether a process has a descriptor of the socket with this inode. The caller needs
// the right to read the process's descriptors (PTRACE_MODE_READ in ptrace(2)); without it the
// result is false.
func HeldBy(pid int, inode uint64) bool {
	if pid <= 0 || inode == 0 {
		return false
	}
	path := "/proc/" + strconv.Itoa(pid) + "/fd"
	dir, err := os.Open(path)
	if err != nil {
		return false
	}
	defer dir.Close()
	want := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	for {
		// In batches, because a process may have millions of descriptors.
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if target, err := os.Readlink(path + "/" + name); err == nil && target == want {
				return true
			}
		}
		if err != nil || len(names) == 0 {
			return false
		}
	}
}

// foreign reports whether a uid is the one that stands for all users that are not mapped into the
// user namespace of this process.
func foreign(uid uint32) bool {
	o := overflow()
	return !o.whole && uid == o.uid
}

// users describes how the kernel reports users to this process.
type users struct {
	uid   uint32 // the uid of unmapped users
	whole bool   // all users are mapped
}

var overflow = sync.OnceValue(func() users {
	u := users{uid: 65534} // DEFAULT_OVERFLOWUID in linux/highuid.h
	if b, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 32); err == nil {
			u.uid = uint32(n)
		}
	}
	u.whole = sys.MapsAllUsers("/proc/self")
	return u
})
