//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// usage is the resources that a process and its devices hold.
type usage struct {
	fds       int
	mappings  int
	resident  int    // KiB
	resources string // of the kernel: output of rdma
	rings     int    // KiB: vmalloc of the virtual machine's kernel, where rdma_rxe has the rings
}

// usage returns the current usage, after freeing unused memory.
func (r *rig) usage(t *testing.T) (u usage) {
	t.Helper()
	debug.FreeOSMemory()
	u.fds = len(must(os.ReadDir("/proc/self/fd"))(t))
	u.mappings = strings.Count(string(must(os.ReadFile("/proc/self/maps"))(t)), "\n")
	u.resident = field(t, "/proc/self/status", "VmRSS:")
	if r.kernel != nil {
		u.resources = fmt.Sprintf("%d objects, %d mappings", r.kernel.Objects(), r.kernel.Mapped())
		return u
	}
	u.resources = resources(t)
	if os.Getenv("VM_NET") != "" {
		u.rings = field(t, "/proc/meminfo", "VmallocUsed:")
	}
	return u
}

// resources returns the kernel's counts of the objects of all devices. They are empty if the kernel
// has no such devices and they are simulated (uct/ib/cmd/rdmasim).
func resources(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err == unix.EPROTONOSUPPORT {
		return ""
	}
	check(t, err)
	check(t, unix.Close(fd))
	rdma, err := exec.LookPath("rdma")
	if err != nil {
		needtest.Tool(t, fmt.Sprintf("%v (apt-get install iproute2)", err))
	}
	out, err := exec.Command(rdma, "resource", "show").CombinedOutput()
	if err != nil {
		t.Fatalf("rdma resource show: %v\n%s", err, out)
	}
	return string(out)
}

// field returns a number of KiB from a file in /proc.
func field(t *testing.T, file, name string) int {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(file))(t))) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return must(strconv.Atoi(f[1]))(t)
		}
	}
	t.Fatalf("no %s in %s", name, file)
	return 0
}

// wantBack waits until the usage is what it was: the kernel may release resources later.
func (r *rig) wantBack(t *testing.T, was usage) {
	t.Helper()
	var now usage
	for end := time.Now().Add(eventTimeout); ; {
		now = r.usage(t)
		// The runtime maps and keeps some memory, and the race detector keeps more. One
		// page for each queue pair would be 8 MiB.
		if now.fds == was.fds && now.mappings < was.mappings+50 && (now.resident < was.resident+6<<10 || race.Enabled) &&
			now.resources == was.resources && now.rings < was.rings+512 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it was\n%+v\nand is\n%+v", was, now)
		}
	}
}

// testManyQPs creates a thousand queue pairs with the objects they need, closes them in any order
// or with the device, and checks that nothing is left.
func testManyQPs(t *testing.T, r *rig) {
	n := r.often(1000, 1000, 5000)
	if r.peer != nil {
		n = 100 // each device alone has been tested
	}
	random := rand.New(rand.NewPCG(1, 2))
	var was usage
	for round := range 4 {
		s := r.newSide(t, verbs.RC)
		all := []interface{ Close() error }{s.qp, s.mr, s.cq, s.cq.Channel(), s.pd}
		seen := map[verbs.QPN]bool{s.qp.QPN(): true}
		for i := range n {
			one := *s
			if i%10 == 0 {
				ch := must(s.ctx.CreateCompChannel())(t)
				s.pd = must(s.ctx.AllocPD())(t)
				s.cq = must(s.ctx.CreateCQ(32, ch, 0))(t)
				all = append(all, s.pd, s.cq, ch)
				one = *s
			}
			one.mr = must(one.pd.RegMR(s.buf[i:i+1000], fullAccess))(t)
			one.buf = s.buf[i : i+1000]
			one.newQP(t, verbs.QPType(2+i%3), func(a *verbs.QPInitAttr) { a.Cap.MaxSendWR, a.Cap.MaxRecvWR, a.Cap.MaxInline = 4, 4, 0 })
			all = append(all, one.qp, one.mr)
			if seen[one.qp.QPN()] {
				t.Fatalf("a second queue pair %#x", one.qp.QPN())
			}
			seen[one.qp.QPN()] = true
			switch i % 4 {
			case 0:
				one.toInit(t)
			case 1: // connected to itself
				one.up(t, &one)
				one.recv(t, verbs.RecvWR{ID: 1, SGList: one.at(0, 10)})
			case 2:
				one.up(t, &one)
				if one.qp.Type() == verbs.RC {
					one.recv(t, verbs.RecvWR{ID: 1, SGList: one.at(500, 10)})
					fill(one.buf[:10], byte(i))
					one.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: one.at(0, 10)})
					one.done(t, 1, verbs.WCRecv)
					if one.buf[500] != byte(i) || one.buf[509] != byte(i)+9 {
						t.Errorf("queue pair %d: wrong bytes", i)
					}
				}
			}
		}
		if round%2 == 0 {
			closeAll(t, all, random)
		}
		check(t, s.ctx.Close())
		if round == 1 {
			was = r.usage(t) // rounds 1 and 3 do the same
		}
	}
	r.wantBack(t, was)
}

// closeAll closes objects in random order; objects in use are closed later.
func closeAll(t *testing.T, all []interface{ Close() error }, random *rand.Rand) {
	t.Helper()
	for len(all) > 0 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var left []interface{ Close() error }
		for _, o := range all {
			if err := o.Close(); errors.Is(err, ucs.ErrBusy) {
				left = append(left, o)
			} else {
				check(t, err)
			}
		}
		if len(left) == len(all) {
			t.Fatalf("%d objects keep each other", len(left))
		}
		all = left
	}
}

// testAnyOrder closes one object of each kind in random orders, and compares with a model which can
// be closed: objects in use cannot.
func testAnyOrder(t *testing.T, r *rig) {
	random := rand.New(rand.NewPCG(3, 4))
	windows := must(r.open(t).QueryDevice())(t).MaxMW > 0
	was := r.usage(t)
	for range r.often(200, 20, 500) {
		c := r.open(t)
		type object struct {
			name string
			o    interface{ Close() error }
			uses []int
		}
		var all []object
		add := func(name string, o interface{ Close() error }, uses ...int) int {
			all = append(all, object{name, o, uses})
			return len(all) - 1
		}
		ch := must(c.CreateCompChannel())(t)
		add("channel", ch)
		pd := must(c.AllocPD())(t)
		pdI := add("domain", pd)
		cq := must(c.CreateCQ(10, ch, 0))(t)
		cqI := add("completion queue", cq)
		cq2 := must(c.CreateCQ(10, nil, 0))(t)
		cq2I := add("second completion queue", cq2)
		add("region", must(pd.RegMR(make([]byte, 100), fullAccess))(t), pdI)
		if windows {
			add("window", must(pd.AllocMW())(t), pdI)
		}
		path := r.path()
		add("address", must(pd.CreateAH(&path))(t), pdI)
		srq := must(pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}))(t)
		srqI := add("shared queue", srq, pdI)
		limits := verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}
		add("queue pair", must(pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq2, SRQ: srq, Cap: limits}))(t), pdI, cqI, cq2I, srqI)
		add("datagram queue pair", must(pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, Cap: limits}))(t), pdI, cqI)
		closed := make([]bool, len(all))
		for left := len(all); left > 0; {
			i := random.IntN(len(all))
			if closed[i] {
				continue
			}
			user := ""
			for j, o := range all {
				for _, u := range o.uses {
					if u == i && !closed[j] {
						user = o.name
					}
				}
			}
			err := all[i].o.Close()
			switch {
			case user == "" && err != nil:
				t.Fatalf("closing the %s: %v", all[i].name, err)
			case user != "" && !errors.Is(err, ucs.ErrBusy):
				t.Fatalf("closing the %s, which the %s uses: %v", all[i].name, user, err)
			}
			if err == nil {
				closed[i] = true
				left--
			}
		}
		check(t, c.Close())
	}
	r.wantBack(t, was)
}
