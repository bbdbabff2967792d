package sys

import (
	"os"
	"strings"
)

// OwnNamespace reports whether the process is in another user namespace than that of the
// machine, where it may have all capabilities (user_namespaces(7)) and none of those that the
// kernel asks of the machine's.
func OwnNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || !WholeMachine(string(text))
}

// WholeMachine reads a map of users: that of the machine's namespace has all, and leaves them as
// they are.
func WholeMachine(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}
