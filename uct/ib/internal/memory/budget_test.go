//go:build linux

package memory

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// sink is a queue that accepts all receives.
type sink struct{}

func (sink) PostRecv(wr []verbs.RecvWR) (int, error) { return len(wr), nil }

// TestBudget checks that pools get their minimum whatever the limit, and that all of them grow to
// half of the limit, so that the rest remains for memory that the application registers.
func TestBudget(t *testing.T) {
	was := lockable
	defer func() { lockable = was }()
	k := verbstest.New()
	ctx, err := verbs.NewContext(k.Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	d := &Space{ctx: ctx, pd: pd, locks: true}
	for _, limit := range []int64{0, 8 << 20, 20 << 20, math.MaxInt64} {
		lockable = func() int64 { return limit }
		var recvs [2]RecvPool
		var sends SendPool
		for n := range recvs {
			if err := recvs[n].Open(d, sink{}, 8192, 4096, 4096); err != nil {
				t.Fatal(err)
			}
		}
		if err := sends.Open(d, 8192, 4096); err != nil {
			t.Fatal(err)
		}
		first := pooled.Load()
		for range 20 { // each pool is used up between two refills
			for n := range recvs {
				p := &recvs[n]
				p.used = p.Len()
				if err := p.Refill(); err != nil {
					t.Fatal(err)
				}
			}
			for range sends.Len() + 1 {
				sends.Take()
			}
		}
		now, _ := k.Pinned()
		if now != pooled.Load() || now > max(first, limit/2) || limit == 20<<20 && now < limit/4 || limit == math.MaxInt64 && now != 3*4096*8192 {
			t.Errorf("limit %d: %d bytes pinned, %d to begin with, %d counted", limit, now, first, pooled.Load())
		}
		if limit != math.MaxInt64 && (!errors.Is(sends.short.why, ucs.ErrNoMemory) || !strings.Contains(sends.short.why.Error(), "ulimit -l")) {
			t.Errorf("limit %d: %v", limit, sends.short.why)
		}
		for n := range recvs {
			if err := recvs[n].Close(); err != nil {
				t.Error(err)
			}
		}
		if err := sends.Close(); err != nil {
			t.Error(err)
		}
		if now, _ := k.Pinned(); now != 0 || pooled.Load() != 0 {
			t.Errorf("%d bytes are left, %d counted", now, pooled.Load())
		}
	}
}

// TestShortagePasses checks that pools that could not grow do so when memory is available again,
// and that they do not try all the time meanwhile.
func TestShortagePasses(t *testing.T) {
	was := lockable
	defer func() { lockable = was }()
	asked, limit := 0, int64(2<<20)
	lockable = func() int64 {
		asked++
		return limit
	}
	ctx, err := verbs.NewContext(verbstest.New().Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	d := &Space{ctx: ctx, pd: pd, locks: true}
	var recvs RecvPool
	var sends SendPool
	if err := errors.Join(recvs.Open(d, sink{}, 8192, 512, 512), sends.Open(d, 8192, 512)); err != nil {
		t.Fatal(err)
	}
	use := func(rounds int) {
		t.Helper()
		for range rounds {
			recvs.used = recvs.Len()
			if err := recvs.Refill(); err != nil {
				t.Fatal(err)
			}
			for {
				if _, ok := sends.Take(); !ok {
					break
				}
			}
		}
	}
	use(8)
	if recvs.Len() == 512 || sends.Len() == 512 || !sends.Empty() {
		t.Fatalf("%d and %d buffers", recvs.Len(), sends.Len())
	}
	asked = 0
	use(100 * maxSkip)
	if asked < 100 || asked > 3*100 {
		t.Errorf("tried %d times", asked)
	}
	recvs.used, recvs.short.skip, asked = recvs.Len(), 1, 0
	for range 2 { // the use counts at the next refill if one is skipped
		if err := recvs.Refill(); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Errorf("tried %d times, want once", asked)
	}
	limit = math.MaxInt64
	use(4 * maxSkip)
	if recvs.Len() != 512 || sends.Len() != 512 {
		t.Errorf("%d and %d buffers when there is room", recvs.Len(), sends.Len())
	}
	if err := errors.Join(recvs.Close(), sends.Close()); err != nil {
		t.Error(err)
	}
}

// TestBudgetOfContainer checks that the capability to lock memory does not lift the limit if the
// process has it only in its own user namespace.
func TestBudgetOfContainer(t *testing.T) {
	const inside = "BUDGET_INSIDE"
	if os.Getenv(inside) != "" {
		if mayLockAll() {
			t.Error("there is said to be no limit")
		}
		return
	}
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(me, "-test.run=^TestBudgetOfContainer$")
	cmd.Env = append(os.Environ(), inside+"=y")
	own := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: own(os.Geteuid()), GidMappings: own(os.Getegid())}
	out, err := cmd.CombinedOutput()
	needtest.UserNamespace(t, err)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
