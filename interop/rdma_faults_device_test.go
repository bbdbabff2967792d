//go:build linux

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/rdmatest"
)

// rdmaFault is what a network does to packets.
type rdmaFault struct {
	name, netem string
	long        bool // in the long form only
}

var rdmaFaults = []rdmaFault{
	{"all", "delay 1ms loss 5% duplicate 5% reorder 25% corrupt 2%", false},
	{"loss", "loss 5%", true},
	{"reorder", "delay 1ms reorder 25%", true},
	{"duplicate", "duplicate 10%", true},
	{"corrupt", "corrupt 5%", true},
}

// faultOperations are operations of each kind, some of them with many packets in both directions.
var faultOperations = []string{"send sync", "burst", "exchange", "put", "puts and gets", "atomics", "am answer", "am burst", "stream burst"}

// faultEnv makes a queue pair retransmit soon; the default is a second.
var faultEnv = []string{"UCX_RC_VERBS_TIMEOUT=20ms"}

func onVeth(t *testing.T) {
	t.Helper()
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("VM_NET is not veth: make test-rxe runs this in the virtual machine")
	}
}

// command runs a program of the system.
func command(t *testing.T, line string) string {
	t.Helper()
	f := strings.Fields(line)
	out, err := exec.Command(f[0], f[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// spoil disturbs the packets between the two sides until the test ends.
func spoil(t *testing.T, netem string) {
	t.Helper()
	exec.Command("insmod", "/modules/sch_netem.ko").Run() // fails if it is loaded already
	for _, dev := range []string{"veth0", "veth1"} {
		command(t, "tc qdisc add dev "+dev+" root netem "+netem)
		t.Cleanup(func() { command(t, "tc qdisc del dev "+dev+" root") })
	}
}

var dropped = regexp.MustCompile(`\(dropped [1-9]`)

// TestRDMAFaults makes the network lose, duplicate, reorder and corrupt packets, during the whole
// life of a connection. No message is lost or duplicated.
func TestRDMAFaults(t *testing.T) {
	onVeth(t)
	list := named(faultOperations...)
	sizes := []int{8, 20000, 1 << 18}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		sizes := sizes
		switch {
		case rdmaLong:
		case theirs.ours:
			sizes = sizes[1:2]
		default:
			sizes = sizes[:2]
		}
		m := newMatrix(ours.name + " with " + theirs.name)
		for _, f := range rdmaFaults {
			if f.long && !rdmaLong {
				continue
			}
			for _, over := range rdmaRoutes(t, reliable, datagram) {
				t.Run(f.name+"/"+over.name, func(t *testing.T) {
					spoil(t, f.netem)
					r := runner{t: t, where: where, ours: ours, theirs: theirs, route: over, matrix: m, operations: list,
						setting: setting{name: f.name, both: faultEnv}, half: sparse}
					r.run(sizes)
					if shown := command(t, "tc -s qdisc show dev veth0"); strings.Contains(f.netem, "loss") && !dropped.MatchString(shown) {
						t.Errorf("the network has lost nothing:\n%s", shown)
					}
				})
			}
		}
		m.print(os.Stdout)
	})
}

// TestRDMALinkDown takes the link down during a connection, and up again. Operations in progress
// then complete, or their endpoint fails: a reliable queue pair with outstanding work fails,
// datagrams do not. In either case the workers keep working with a new endpoint.
func TestRDMALinkDown(t *testing.T) {
	onVeth(t)
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		for _, over := range rdmaRoutes(t, rdmaTransports...) {
			for name, busy := range map[string]bool{"idle": false, "busy": true} {
				switch {
				case busy && over.name == datagram && !ours.ours:
					continue // C aborts when its queue pair of datagrams fails (ud_verbs.c)
				case !rdmaLong && (over.name == reliable || over.name == datagram && !busy):
					continue
				}
				t.Run(over.name+"/"+name, func(t *testing.T) {
					p, err := newPair(where, ours, theirs, setting{mode: "peer"}, over)
					if err != nil {
						t.Fatal(err)
					}
					defer p.report(t)
					t.Cleanup(func() { rdmatest.LinkUp(t) })
					p.meet(t)
					p.unplugged(t, busy)
				})
			}
		}
	})
}

func (p *pair) unplugged(t *testing.T, busy bool) {
	t.Helper()
	command(t, "ip link set veth0 down")
	var requests []int
	var sent []message
	if busy {
		requests, sent = waiting(t, p)
	}
	for _, side := range []*peer{p.ours, p.theirs} {
		if err := side.do("progress", 300); err != nil {
			t.Fatal(err)
		}
	}
	rdmatest.LinkUp(t)
	lost := false
	for i, m := range sent {
		r, err := p.theirs.recv(m.tag, fullMask, m.size, "contig")
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.ours.wait(requests[i], 0)
		switch {
		case err != nil:
			t.Fatal(err)
		case got.status.IsError():
			lost = true
			err = p.theirs.do("cancel", r)
		default:
			err = p.theirs.received(r, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("lost: %v", lost)
	if !lost {
		for _, side := range []*peer{p.ours, p.theirs} {
			values, err := side.command("failure", ep)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := parseResult(values); err != nil || r.status.IsError() {
				t.Fatalf("%s: nothing was under way, and the endpoint is lost: %v, %v", side.name, r.status, err)
			}
		}
		p.meet(t)
		if err := p.close("peer"); err != nil {
			t.Error(err)
		}
		return
	}
	if err := p.ours.lost(ep); err != nil {
		t.Fatal(err)
	}
	for _, side := range []*peer{p.ours, p.theirs} {
		n := side.request()
		if err := side.do("close", n, ep, "force"); err != nil {
			t.Fatal(err)
		}
		if _, err := side.wait(n, 0); err != nil { // any status will do
			t.Fatal(err)
		}
	}
	if err := p.connect("peer"); err != nil {
		t.Fatal(err)
	}
	p.meet(t)
	if err := p.close("peer"); err != nil {
		t.Error(err)
	}
}

// meetingTakes returns at least four times the time that two programs need to connect on this
// machine: on a busy machine C needs seconds for its tables, and answers nothing meanwhile.
func meetingTakes(t *testing.T, where *place, ours, theirs program) time.Duration {
	t.Helper()
	over := rdmaRoute(t, anyIB)
	p, err := startApart(where, where.opposite(), ours, theirs, setting{mode: "peer"}, over, over)
	if err != nil {
		t.Fatal(err)
	}
	defer p.report(t)
	start := time.Now()
	if err := p.connect("peer"); err != nil {
		t.Fatal(err)
	}
	p.meet(t)
	return max(3*time.Second, 4*time.Since(start))
}

// soonLost returns settings for fast detection by keepalive, queue pairs and datagrams, relative to
// the time that two programs need to connect.
func soonLost(t *testing.T, where *place, ours, theirs program) []string {
	t.Helper()
	meeting := meetingTakes(t, where, ours, theirs)
	return []string{often, fmt.Sprintf("UCX_UD_VERBS_TIMEOUT=%dms", meeting.Milliseconds()), "UCX_RC_VERBS_TIMEOUT=500ms"}
}

// lostShort is the cases of TestRDMALost's short form, by route.
var lostShort = map[string][]string{
	reliable: {"killed amid transfers"},
	datagram: {"stopped and continued", "killed with messages queued", "killed while we sleep"},
	anyIB:    {"killed", "stopped while we close, and killed"},
}

// TestRDMALost is TestLostPeer over RDMA devices.
func TestRDMALost(t *testing.T) {
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		soon := soonLost(t, where, ours, theirs)
		for _, over := range rdmaRoutes(t, rdmaTransports...) {
			for _, test := range lostCases {
				if !rdmaLong && !slices.Contains(lostShort[over.name], test.name) {
					continue
				}
				test.env = slices.Concat(test.env, soon)
				if test.name == "killed while we sleep" && !ours.ours {
					continue // C does not sleep so
				}
				t.Run(over.name+"/"+test.name, func(t *testing.T) { lose(t, where, ours, theirs, over, test) })
			}
		}
	})
}

// TestRDMADialedLost is TestListenerLost over RDMA devices.
func TestRDMADialedLost(t *testing.T) {
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		switch {
		case rdmaLong:
			loseDialed(t, where, ours, theirs, weServe, over, nil, soonLost(t, where, ours, theirs)...)
		case over.tls == anyIB:
			loseDialed(t, where, ours, theirs, weServe, over, []string{"before the answer", "amid messages"}, soonLost(t, where, ours, theirs)...)
		}
	})
}

// nodeOf returns the device node of a device.
func nodeOf(t *testing.T, device string) string {
	t.Helper()
	classes, err := filepath.Glob("/sys/class/infiniband_verbs/uverbs*")
	for _, class := range classes {
		if name, err := os.ReadFile(filepath.Join(class, "ibdev")); err == nil && strings.TrimSpace(string(name)) == device {
			return filepath.Join("/dev/infiniband", filepath.Base(class))
		}
	}
	t.Fatalf("no device %s: %v", device, err)
	return ""
}

// TestRDMARemoved deletes the Go side's device during a connection. Linux waits until no process
// has it open, and soft-RoCE does not notify those: everything continues until they exit.
func TestRDMARemoved(t *testing.T) {
	onVeth(t)
	overRDMA(t, true, func(t *testing.T, where *place, ours, theirs program) {
		if !theirs.ours && !rdmaLong {
			return // a long wait with the same result
		}
		p, err := newPair(where, ours, theirs, setting{mode: "peer", both: soonLost(t, where, ours, theirs)}, rdmaRoute(t, anyIB))
		if err != nil {
			t.Fatal(err)
		}
		deleted := make(chan error, 1)
		defer func() {
			p.report(t)
			if err := <-deleted; err != nil {
				t.Error(err)
			}
			command(t, "rdma link add rxe0 type rxe netdev veth0")
		}()
		p.meet(t)
		node := nodeOf(t, "rxe0")
		go func() {
			out, err := exec.Command("rdma", "link", "del", "rxe0").CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			deleted <- err
		}()
		for end := time.Now().Add(exitLimit); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(node); err != nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal("rxe0 can still be opened")
			}
		}
		p.meet(t)
		requests, _ := waiting(t, p)
		p.theirs.process.kill()
		expectFailure(t, p, requests)
	})
}
