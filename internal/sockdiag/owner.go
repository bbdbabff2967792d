//go:build linux

package sockdiag

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// HeldBy reports whether a process has a descriptor of the socket with this inode. It
// needs the rights to look (PTRACE_MODE_READ in ptrace(2)); without them the answer
// is no.
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
		// Bit by bit: a process may have millions.
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

// foreign reports whether a user number stands for all users that have none in the
// user namespace of this process.
func foreign(uid uint32) bool {
	o := overflow()
	return !o.whole && uid == o.uid
}

// users is how the kernel shows users here.
type users struct {
	uid   uint32 // of those who have no number
	whole bool   // all have one
}

var overflow = sync.OnceValue(func() users {
	u := users{uid: 65534} // DEFAULT_OVERFLOWUID in linux/highuid.h
	if b, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 32); err == nil {
			u.uid = uint32(n)
		}
	}
	b, _ := os.ReadFile("/proc/self/uid_map")
	u.whole = wholeMap(string(b))
	return u
})

// wholeMap reports whether a map of users (user_namespaces(7)) has them all.
func wholeMap(text string) bool {
	f := strings.Fields(text)
	return len(f) == 3 && f[0] == "0" && f[2] == "4294967295"
}
