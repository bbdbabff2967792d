//go:build linux

package rdmatest

import (
	"os/exec"
	"strings"
	"testing"
)

// LinkUp restores the network of the virtual machine to the state that scripts/vm-init made: the
// kernel drops routes when a link goes down.
func LinkUp(t testing.TB) {
	t.Helper()
	for _, line := range []string{
		"ip link set veth0 up", "ip link set veth1 up",
		"ip route replace 10.9.0.2/32 dev veth0 src 10.9.0.1 table 101",
		"ip route replace 10.9.0.1/32 dev veth1 src 10.9.0.2 table 101",
	} {
		f := strings.Fields(line)
		if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}
