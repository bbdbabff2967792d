//go:build linux

package ucptest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// A refusal is a resource that the machine refuses to a transport.
type refusal struct {
	name       string
	own        bool    // the test needs its own process to cause it
	namespaces uintptr // namespaces of that process
	prepare    func(t *testing.T)

	transport string    // transport that is affected
	settings  []setting // its settings

	// reason lists what the explanation must contain: what is needed, what is available, and the
	// remedy. Without a reason the transport must work nevertheless.
	reason []string
	status error // of a context with no other transport
	memory int   // bytes that cannot be allocated from the transport's domain either, 0: not tried
}

var named = setting{"POSIX_USE_PROC_LINK", "n"}

var refusals = []refusal{
	{
		name: "small dev shm", namespaces: unix.CLONE_NEWNS,
		prepare:   func(t *testing.T) { mountShm(t, "size=1m", 0) },
		transport: "posix", settings: []setting{named},
		reason: []string{"need ", " bytes, /dev/shm has ", " free; enlarge it", "UCX_POSIX_USE_PROC_LINK=y"},
		status: ucs.ErrNoMemory, memory: 2 << 20,
	},
	{
		name: "full dev shm", namespaces: unix.CLONE_NEWNS, prepare: fillShm,
		transport: "posix", settings: []setting{named},
		reason: []string{"need ", " bytes, /dev/shm has 0 free; enlarge it", "UCX_POSIX_USE_PROC_LINK=y"},
		status: ucs.ErrNoMemory, memory: 1,
	},
	{
		name: "read-only dev shm", namespaces: unix.CLONE_NEWNS,
		prepare:   func(t *testing.T) { mountShm(t, "", unix.MS_RDONLY) },
		transport: "posix", settings: []setting{named},
		reason: []string{"read-only file system", "/dev/shm must be a directory this user may write to", "set UCX_POSIX_DIR", "UCX_POSIX_USE_PROC_LINK=y"},
		status: ucs.ErrShmemSegment, memory: 1,
	},
	{
		name: "full dev shm, no names", namespaces: unix.CLONE_NEWNS, prepare: fillShm,
		transport: "posix",
	},
	{
		name: "read-only dev shm, no names", namespaces: unix.CLONE_NEWNS,
		prepare:   func(t *testing.T) { mountShm(t, "", unix.MS_RDONLY) },
		transport: "posix",
	},
	{
		name: "SHMMAX", namespaces: unix.CLONE_NEWIPC,
		prepare:   func(t *testing.T) { setShmLimit(t, "shmmax", "8192") },
		transport: "sysv",
		reason:    []string{"need ", " bytes, at most 8192 are allowed", "sysctl kernel.shmmax"},
		status:    ucs.ErrNoMemory, memory: 1 << 20,
	},
	{
		name: "SHMALL", namespaces: unix.CLONE_NEWIPC,
		prepare:   func(t *testing.T) { setShmLimit(t, "shmall", "2") },
		transport: "sysv",
		reason:    []string{"need one segment of ", " and 2 pages are allowed", "kernel.shmall"},
		status:    ucs.ErrNoMemory, memory: 1 << 20,
	},
	{
		name: "SHMMNI", namespaces: unix.CLONE_NEWIPC,
		prepare:   func(t *testing.T) { setShmLimit(t, "shmmni", "1") },
		transport: "sysv",
		reason:    []string{"need one segment of ", "at most 1 segments", "kernel.shmmni"},
		status:    ucs.ErrNoMemory,
	},
	{
		name: "file size", own: true,
		prepare: func(t *testing.T) {
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
				t.Fatal(err)
			}
		},
		transport: "posix",
		reason:    []string{"need ", " bytes, the limit of a file is 1048576", "ulimit -f"},
		status:    ucs.ErrNoMemory, memory: 2 << 20,
	},
	{
		name:      "huge pages of files",
		transport: "posix", settings: []setting{{"POSIX_HUGETLB_MODE", "y"}},
		reason: []string{"UCX_POSIX_HUGETLB_MODE=y", "use try"},
		status: ucs.ErrNoDevice,
	},
	{
		name:      "huge pages of files, perhaps",
		transport: "posix", settings: []setting{{"POSIX_HUGETLB_MODE", "try"}},
	},
	{
		name: "huge pages of System V", prepare: needNoHugePages,
		transport: "sysv", settings: []setting{{"SYSV_HUGETLB_MODE", "y"}},
		reason: []string{"need ", " bytes, 0 huge pages of ", " bytes are free; sysctl vm.nr_hugepages", "UCX_SYSV_HUGETLB_MODE=n"},
		status: ucs.ErrNoMemory, memory: 4 << 20,
	},
	{
		name: "huge pages of System V, perhaps", prepare: needNoHugePages,
		transport: "sysv", settings: []setting{{"SYSV_HUGETLB_MODE", "try"}},
	},
}

func fillShm(t *testing.T) {
	mountShm(t, "size=8m", 0)
	fd, err := unix.Open("/dev/shm/full", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fallocate(fd, 0, 0, 8<<20); err != nil {
		t.Fatal(err)
	}
}

func needNoHugePages(t *testing.T) {
	if text, err := os.ReadFile("/proc/sys/vm/nr_hugepages"); err == nil && strings.TrimSpace(string(text)) != "0" {
		t.Skip("this machine has huge pages")
	}
}

// TestRefused checks that if the machine refuses a resource to a transport of shared memory, other
// transports are used, and that the log and the endpoint report the reason. Without another
// transport the error has the same reason.
func TestRefused(t *testing.T) {
	needtest.Goroutines(t)
	for _, c := range refusals {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if (c.own || c.namespaces != 0) && !confined(t, c.namespaces) {
				return
			}
			if c.prepare != nil {
				c.prepare(t)
			}
			c.next(t)
			if c.reason != nil {
				c.alone(t)
			}
			if c.memory > 0 {
				c.allocate(t)
			}
		})
	}
}

// transports returns a transport with the refused transport and possibly another one.
func (c *refusal) transports(list string) transport {
	tr := transport{name: list, settings: []setting{{"TLS", list}, {"NET_DEVICES", "lo"}}}
	return tr.with(c.settings...)
}

// saysAll reports whether a text contains all parts, or else returns the first that is missing.
func saysAll(text string, parts []string) (missing string, ok bool) {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return p, false
		}
	}
	return "", true
}

// next exchanges messages between two workers that also have tcp.
func (c *refusal) next(t *testing.T) {
	r := newRig(t, c.transports(c.transport+",tcp"))
	want := c.transport
	if c.reason != nil {
		want = "tcp"
		r.log.Expect(c.reason[len(c.reason)-1])
	}
	a, b := r.open(), r.open()
	ab, ba := a.connect(b), b.connect(a)
	for i, size := range []int{8, 4096, 1 << 20} {
		r.sendAndTake(ab, b, ucp.Tag(i), ucttest.Pattern(size, 1))
		r.sendAndTake(ba, a, ucp.Tag(i), ucttest.Pattern(size, 2))
	}
	if got := ab.Attr().Transports[0].Name; got != want {
		t.Errorf("messages travel by %s, not by %s:\n%s", got, want, ab.Explain())
	}
	if c.reason == nil {
		return
	}
	if missing, ok := saysAll(strings.Join(ab.Explain().Unused, "\n"), c.reason); !ok {
		t.Errorf("the endpoint does not say %q:\n%s", missing, ab.Explain())
	}
}

// alone opens a worker with the refused transport only.
func (c *refusal) alone(t *testing.T) {
	r := newRig(t, c.transports(c.transport))
	r.log.Allow("not usable")
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: features}, r.config())
	if err == nil {
		defer ctx.Close()
		var w *ucp.Worker
		if w, err = ctx.NewWorker(ucp.WorkerParams{}); err == nil {
			w.Close()
		}
	}
	if !errors.Is(err, c.status) {
		t.Fatalf("with nothing else: %v, want %v", err, c.status)
	}
	if missing, ok := saysAll(err.Error(), c.reason); !ok {
		t.Errorf("%q does not say %q", err, missing)
	}
}

// allocate allocates memory from the transport's domain, which must fail, and then by any method.
func (c *refusal) allocate(t *testing.T) {
	only := newRig(t, c.transports(c.transport+",tcp").with(setting{"ALLOC_PRIO", "md:" + c.transport}))
	p := ucp.MemMapParams{Length: c.memory, Flags: ucp.MemMapAllocate}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureRMA}, only.config())
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	if m, err := ctx.MemMap(p); err == nil {
		t.Error("memory that is not there")
		m.Close()
	} else if missing, ok := saysAll(err.Error(), c.reason); !ok || !errors.Is(err, ucs.ErrNoMemory) {
		t.Errorf("allocating: %v, want %q in it", err, missing)
	}
	any, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureRMA}, newRig(t, c.transports(c.transport+",tcp")).config())
	if err != nil {
		t.Fatal(err)
	}
	defer any.Close()
	m, err := any.MemMap(p)
	if err != nil {
		t.Fatalf("allocating elsewhere: %v", err)
	}
	m.Bytes()[0] = 1
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullLater: /dev/shm has room for what a worker allocates at first and no more. Many messages
// without receives arrive nevertheless.
func TestFullLater(t *testing.T) {
	needtest.Goroutines(t)
	if !confined(t, unix.CLONE_NEWNS) {
		return
	}
	mountShm(t, "size=8600k", 0)
	r := newRig(t, transport{name: "posix", settings: []setting{{"TLS", "posix"}, named}})
	a, b := r.open(), r.open()
	ep := a.connect(b)
	const count, size = 2000, 4096
	var sends []*ucp.Request
	for i := range count {
		req, err := ep.TagSend(ucp.Tag(i), ucttest.Pattern(size, uint64(i)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if req != nil {
			sends = append(sends, req)
		}
		r.progress()
	}
	r.arrived(b, count-1)
	buf := make([]byte, size)
	for i := range count {
		r.must(b.TagRecv(ucp.Tag(i), ucp.FullMask, buf, nil))
		ucttest.SameBytes(t, "message", buf, ucttest.Pattern(size, uint64(i)))
	}
	for _, req := range sends {
		r.must(req, nil)
	}
	m, err := a.ctx.MemMap(ucp.MemMapParams{Length: 1 << 20, Flags: ucp.MemMapAllocate})
	if err != nil {
		t.Fatalf("allocating: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
