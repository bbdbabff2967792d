//go:build linux

package ucptest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// The tests over devices without a kernel, run over the devices of the virtual machine, which
// really pin memory and take real time.

// cable returns a transport over the RDMA devices at the two ends of the virtual machine's veth
// pair. The workers of a test use them in turn.
func cable(t *testing.T, tls string) transport {
	t.Helper()
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("the devices are those of the VM, make test-rxe runs this there")
	}
	rdmatest.All(t)
	return transport{name: tls, few: true, busy: true, silent: true, devices: []string{"rxe0:1,lo", "rxe1:1,lo"}}.
		with(setting{"TLS", tls}, setting{"KEEPALIVE_INTERVAL", "500ms"})
}

// onDevices opens a worker at each device.
func onDevices(t *testing.T, tls string, more ...setting) (r *rig, a, b *side) {
	t.Helper()
	r = newRig(t, cable(t, tls).with(more...))
	if os.Getenv(memlockChild) != "" {
		r.log.Allow("REG_MR: cannot allocate memory")
	}
	return r, r.open(), r.open()
}

// deviceLong selects the long form of the tests: make test-rxe-long.
var deviceLong = os.Getenv("RXE_LONG") != ""

// TestDeviceSuite runs the suite on soft-RoCE. In the short form, transfers run under some of the
// switches, and each transport runs every other one of the remaining tests, once: how a message is
// sent does not matter for what ends in between.
func TestDeviceSuite(t *testing.T) {
	groups := slices.Concat(suite, oneSidedSuite)
	for number, tr := range []transport{cable(t, "rc_v").pairwise(), cable(t, "ud_v")} {
		if deviceLong {
			runGroups(t, []transport{tr}, groups)
			continue
		}
		tr.turn = 1 + number
		runGroups(t, []transport{tr}, shortSuite(groups, number))
	}
}

// shortSuite returns the tests of the groups that TestDeviceSuite runs over a transport in its
// short form, as all of them take the machine half an hour. Tests of the rights to memory depend on
// keys alone and open hundreds of workers, so they are left out.
func shortSuite(groups []caseGroup, number int) (list []caseGroup) {
	less := []string{"denied", "rights of allocated memory", "memory of some peers"}
	for _, name := range []string{"transfer", "wireup", "close", "put and get"} {
		g := groups[slices.IndexFunc(groups, func(g caseGroup) bool { return g.name == name })]
		short := caseGroup{name: name}
		for i, c := range g.cases {
			if name != "transfer" {
				if i%2 != number || slices.Contains(less, c.name) {
					continue
				}
				c.need &^= everySwitch | fewSwitches
			}
			short.cases = append(short.cases, c)
		}
		list = append(list, short)
	}
	return list
}

// resources returns the kernel's counts of RDMA objects.
func resources(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("rdma", "resource").Output()
	if err != nil {
		needtest.Tool(t, fmt.Sprintf("rdma resource: %v (apt-get install iproute2)", err))
	}
	return string(out)
}

// TestDeviceManyEndpoints checks that 500 endpoints, or twice as many in the long form, leave no
// objects in the kernel.
func TestDeviceManyEndpoints(t *testing.T) {
	const atOnce = 50
	all := 250 // on each side
	if deviceLong {
		all = 500
	}
	for _, tls := range []string{"rc_v", "ud_v"} {
		t.Run(tls, func(t *testing.T) {
			var before string
			if os.Getenv("VM_NET") == "veth" {
				before = resources(t)
			}
			r, a, b := onDevices(t, tls)
			mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer}
			round := func(n int, seed uint64) {
				eps := make([][2]*ucp.Endpoint, n)
				for k := range eps {
					eps[k] = [2]*ucp.Endpoint{a.connectWith(b, mode), b.connectWith(a, mode)}
				}
				for k := range eps {
					size := []int{8, 3000, 100_000}[k%3]
					src, buf := ucttest.Pattern(size, seed+uint64(k)), make([]byte, size)
					recv := r.started(b.TagRecv(ucp.Tag(k), ucp.FullMask, buf, nil))
					r.must(eps[k][0].TagSend(ucp.Tag(k), src, nil))
					r.must(recv, nil)
					ucttest.SameBytes(t, "message", buf, src)
				}
				for k := range eps {
					r.must(eps[k][0].CloseAsync(r.closings()[k%2]))
					r.finish(eps[k][1].CloseAsync(force))
				}
				r.endpoints(0, a, b)
			}
			round(atOnce, 0)
			open := resources(t)
			for n := 0; n < all; n += atOnce {
				round(atOnce, uint64(n))
			}
			// Closed queue pairs are destroyed when their last requests are complete.
			if !r.eventually(func() bool { return queuePairs(resources(t)) == queuePairs(open) }) {
				t.Errorf("with the workers open:\n%s\nbefore:\n%s", resources(t), open)
			}
			r.sides = nil
			a.close()
			b.close()
			if now := resources(t); now != before {
				t.Errorf("when all is closed:\n%s\nbefore:\n%s", now, before)
			}
		})
	}
}

// queuePairs returns the counts of queue pairs, by device.
func queuePairs(resources string) string {
	var list []string
	for line := range strings.Lines(resources) {
		f := strings.Fields(line)
		if k := slices.Index(f, "qp"); k > 0 && k+1 < len(f) {
			list = append(list, f[1]+" "+f[k+1])
		}
	}
	return strings.Join(list, ", ")
}

// TestDeviceCollected runs garbage collections that return pages to the system while the device
// pins others.
func TestDeviceCollected(t *testing.T) {
	messages := 40
	if deviceLong {
		messages = 200
	}
	for _, scheme := range []string{"get_zcopy", "put_zcopy"} {
		t.Run(scheme, func(t *testing.T) {
			r, a, b := onDevices(t, "rc_v", setting{"RNDV_SCHEME", scheme}, setting{"RNDV_THRESH", "16k"})
			ep := a.connect(b)
			r.warm(ep, b)
			r.collected(b, ep, messages)
			r.clean(a, b)
		})
	}
}

// memlockChild is the environment variable with the limit for the processes of
// TestDeviceLittleToPin.
const memlockChild = "UCPTEST_MEMLOCK"

// TestDeviceLittleToPin runs two workers with rc and ud as an unprivileged user who may lock 8 MiB,
// and as a user who may lock next to nothing. In the second case tcp is used, and the reason is
// reported.
func TestDeviceLittleToPin(t *testing.T) {
	if limit := os.Getenv(memlockChild); limit != "" {
		littleToPin(t, limit)
		return
	}
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("the devices are those of the VM, make test-rxe runs this there")
	}
	for _, limit := range []string{"8 MiB", "64 KiB"} {
		t.Run(limit, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(exe, "-test.run=^TestDeviceLittleToPin$", "-test.v")
			cmd.Env = append(os.Environ(), memlockChild+"="+limit)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			var told []string
			for line := range strings.Lines(string(out)) {
				if !strings.Contains(line, "INFO #") {
					told = append(told, line)
				}
			}
			t.Logf("%s", strings.Join(told, ""))
			if err != nil || !strings.Contains(string(out), "--- PASS: TestDeviceLittleToPin") {
				t.Error(err)
			}
		})
	}
}

func littleToPin(t *testing.T, text string) {
	limit := uint64(8 << 20)
	if text == "64 KiB" {
		limit = 64 << 10
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	if uid := os.Getuid(); uid != 65534 {
		t.Fatalf("user %d", uid)
	}
	r, a, b := onDevices(t, "ib,tcp")
	there, back := a.connect(b), b.connect(a)
	r.exchange(there, b, back, a)
	for _, n := range []int{100, 8000, 60_000, 1 << 20} {
		var reqs []*ucp.Request
		bufs := make([][]byte, 16)
		for k := range bufs {
			bufs[k] = make([]byte, n)
			reqs = append(reqs, r.started(b.TagRecv(ucp.Tag(k), ucp.FullMask, bufs[k], nil)))
			req, err := there.TagSend(ucp.Tag(k), ucttest.Pattern(n, uint64(k)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if req != nil {
				reqs = append(reqs, req)
			}
		}
		for _, req := range reqs {
			r.must(req, nil)
		}
		for k := range bufs {
			ucttest.SameBytes(t, "message", bufs[k], ucttest.Pattern(n, uint64(k)))
		}
	}
	var names []string
	for _, l := range there.Attr().Transports {
		names = append(names, l.Name)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmPin") || strings.HasPrefix(line, "VmLck") || strings.HasPrefix(line, "VmHWM") {
			t.Logf("lanes over %v: %s", names, strings.TrimSpace(line))
		}
	}
	rdma := slices.Contains(names, "rc_verbs")
	if want := limit > 1<<20; rdma != want {
		t.Errorf("lanes over %v", names)
	}
	if rdma {
		return
	}
	var why []string
	for line := range strings.Lines(there.Explain().String()) {
		if strings.Contains(line, "not used: rc_verbs/rxe0") || strings.Contains(line, "not used: ud_verbs/rxe0") {
			why = append(why, line)
		}
	}
	t.Log(strings.Join(why, ""))
	if len(why) != 2 || !strings.Contains(why[0], "raise the limit (ulimit -l") {
		t.Error("why is not told")
	}
}
