package vm

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestInventory(t *testing.T) {
	network(t, "veth")
	device(t, "rxe0", "veth0", "0000:0000:0000:0000:0000:ffff:0a09:0001")
	device(t, "rxe1", "veth1", "0000:0000:0000:0000:0000:ffff:0a09:0002")
	for _, path := range []string{
		"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm",
	} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		f.Close()
	}
	for _, name := range []string{
		"ibv_devices", "ibv_devinfo", "ibv_asyncwatch",
		"ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
		"rping", "ucmatose", "udaddy",
		"ib_write_lat", "ib_write_bw", "ib_send_lat", "ib_send_bw",
		"ib_read_lat", "ib_read_bw", "ib_atomic_lat", "ib_atomic_bw",
		"ip", "rdma", "tc", "strace",
	} {
		if _, err := exec.LookPath(name); err != nil {
			t.Error(err)
		}
	}
	if output := command(t, "ibv_devinfo", "-v"); strings.Count(output, "PORT_ACTIVE (4)") != 2 {
		t.Errorf("ibv_devinfo -v does not show two active ports:\n%s", output)
	}
}

// TestInventoryPingpong runs C's pingpong tools against each other. Another test runs this module's
// against each of them (uct/ib/cmd/internal/pingpong), so the long form alone runs all.
func TestInventoryPingpong(t *testing.T) {
	network(t, "veth")
	list := []string{
		"ibv_rc_pingpong -n 50 -e",
		"ibv_ud_pingpong -n 50 -s 1024 -e",
	}
	if os.Getenv("RXE_LONG") != "" {
		list = append(list,
			"ibv_rc_pingpong -n 100",
			"ibv_uc_pingpong -n 100 -s 1024",
			"ibv_ud_pingpong -n 100 -s 1024",
			"ibv_srq_pingpong -n 100 -q 4",
		)
	}
	for _, command := range list {
		t.Run(command, func(t *testing.T) {
			t.Log(pingpong(t, "rxe1", "rxe0", strings.Fields(command)...))
		})
	}
}

func TestInventoryRping(t *testing.T) {
	network(t, "veth")
	const times = 5
	s := serve(t, func() bool {
		return strings.Contains(command(t, "rdma", "resource", "show", "cm_id"), "LISTEN")
	}, "rping", "-s", "-v", "-V", "-a", "10.9.0.2", "-C", strconv.Itoa(times))
	output := command(t, "rping", "-c", "-v", "-V", "-a", "10.9.0.2", "-C", strconv.Itoa(times))
	if got := strings.Count(output, "ping data: rdma-ping-"); got != times {
		t.Errorf("the client shows %d answers, want %d:\n%s", got, times, output)
	}
	if output := s.wait(t); strings.Count(output, "server ping data: rdma-ping-") != times {
		t.Errorf("the server does not show %d requests:\n%s", times, output)
	}
}

func TestInventoryPerftest(t *testing.T) {
	network(t, "veth")
	for _, name := range []string{"ib_write_lat -n 100", "ib_write_bw -n 20 -s 65536"} {
		t.Run(name, func(t *testing.T) { perftest(t, name) })
	}
}

// perftest runs a program of perftest between the two devices.
func perftest(t *testing.T, line string) {
	t.Helper()
	args := append(strings.Fields(line), "-x", "1", "-d")
	s := serve(t, listening(defaultPort), append(args[:len(args):len(args)], "rxe1")...)
	t.Log(command(t, append(args[:len(args):len(args)], "rxe0", "127.0.0.1")...))
	s.wait(t)
}

var dropped = regexp.MustCompile(`\(dropped (\d+),`)

// TestInventoryLoss: packets that netem drops are lost between the devices, which retransmit them.
func TestInventoryLoss(t *testing.T) {
	network(t, "veth")
	netem(t)
	command(t, "tc", "qdisc", "add", "dev", "veth0", "root", "netem", "loss", "5%")
	t.Cleanup(func() { command(t, "tc", "qdisc", "del", "dev", "veth0", "root") })
	// Of about 240 packets some are certainly dropped, and each one costs its sender a timeout.
	// Both sides wait for each other at the end, unlike those of ibv_rc_pingpong: soft-RoCE
	// retransmits for ever to a peer that exited before its last acknowledgement was lost.
	perftest(t, "ib_write_lat -n 60 -s 1024")
	shown := command(t, "tc", "-s", "qdisc", "show", "dev", "veth0")
	count := dropped.FindStringSubmatch(shown)
	if count == nil {
		t.Fatalf("tc shows no count:\n%s", shown)
	}
	t.Logf("packets dropped: %s", count[1])
	if count[1] == "0" {
		t.Error("netem has dropped nothing: the traffic does not cross veth0")
	}
}
