package sys

import (
	"os"
	"path/filepath"
	"strings"
)

// OwnNamespace reports whether the process is in a user namespace other than the initial one. There
// it may have all capabilities (user_namespaces(7)), but none that the kernel requires in the
// initial namespace.
func OwnNamespace() bool { return !MapsAllUsers("/proc/self") }

// MapsAllUsers reports whether a process is in the initial user namespace, which maps every user to
// itself: its uid_map says so. directory is the process's directory in /proc. Without a uid_map the
// result is false.
func MapsAllUsers(directory string) bool {
	text, err := os.ReadFile(filepath.Join(directory, "uid_map"))
	f := strings.Fields(string(text))
	return err == nil && len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}
