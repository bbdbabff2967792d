package vm

import "testing"

func TestInventoryLo(t *testing.T) {
	network(t, "lo")
	device(t, "rxe0", "lo", "0000:0000:0000:0000:0000:ffff:7f00:0001")
	t.Log(pingpong(t, "rxe0", "rxe0", "ibv_rc_pingpong", "-n", "100"))
}
