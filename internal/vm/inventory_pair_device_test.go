package vm

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestInventoryPair(t *testing.T) {
	network(t, "nic")
	args := []string{"-c", "-g", "1", "-d", "rxe0", "-n", "50"}
	if os.Getenv("VM_HOST") == "1" {
		device(t, "rxe0", "eth0", "0000:0000:0000:0000:0000:ffff:0a09:0001")
		t.Log(command(t, append([]string{"ibv_rc_pingpong"}, args...)...))
		return
	}
	device(t, "rxe0", "eth0", "0000:0000:0000:0000:0000:ffff:0a09:0002")
	// The other machine may not be up yet.
	for end := time.Now().Add(stepTimeout); ; time.Sleep(50 * time.Millisecond) {
		output, err := exec.Command("ibv_rc_pingpong", append(args, "10.9.0.1")...).CombinedOutput()
		if err == nil {
			t.Logf("%s", output)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, output)
		}
	}
}
