//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// withFiles runs f with a limit at which the process can open only spare more files.
func withFiles(t *testing.T, spare int, f func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(0) // the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd + spare), Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	f()
}

// fileLimit is the part of an error that names the limit of descriptors, and how to raise it.
const fileLimit = "ulimit -n"

// TestFileLimit opens workers and endpoints with more and more descriptors to spare, from none to
// enough. Errors name the limit, what succeeds works, and nothing is left open.
func TestFileLimit(t *testing.T) {
	if !confined(t, 0) {
		return
	}
	const tries = 64
	needCalls(t, "sysv", "cma")
	local := transport{name: "all", settings: []setting{{"TLS", "self,posix,sysv,cma,tcp"}, {"NET_DEVICES", "lo"}}}
	t.Run("worker", func(t *testing.T) {
		r := newRig(t, local)
		r.log.Allow(fileLimit)
		cfg := r.config()
		failed, partly := 0, 0
		for spare := range tries {
			var ctx *ucp.Context
			var w *ucp.Worker
			var err error
			withFiles(t, spare, func() {
				if ctx, err = ucp.NewContext(ucp.ContextParams{Features: features}, cfg); err == nil {
					w, err = ctx.NewWorker(ucp.WorkerParams{})
				}
			})
			missing := ""
			if w != nil {
				var info strings.Builder
				if err := errors.Join(ctx.WriteInfo(&info), w.WriteInfo(&info), w.Close()); err != nil {
					t.Error(err)
				}
				for _, l := range strings.Split(info.String(), "\n") {
					if strings.Contains(l, "not used") && !strings.Contains(l, "not in ") {
						missing += l + "\n"
						if !strings.Contains(l, fileLimit) {
							t.Errorf("%d descriptors: %q does not name the limit", spare, l)
						}
					}
				}
			}
			if ctx != nil {
				if err := ctx.Close(); err != nil {
					t.Error(err)
				}
			}
			switch {
			case err != nil:
				failed++
				if !strings.Contains(err.Error(), fileLimit) {
					t.Errorf("%d descriptors: %q does not name the limit", spare, err)
				}
			case missing != "":
				partly++
			default:
				t.Logf("%d descriptors are enough; with fewer %d times no worker, %d times some transports missing", spare, failed, partly)
				if failed == 0 || partly == 0 {
					t.Errorf("no worker %d times, some transports missing %d times", failed, partly)
				}
				return
			}
		}
		t.Errorf("%d descriptors are not enough", tries)
	})
	t.Run("endpoint", func(t *testing.T) {
		failed := 0
		for spare := range tries {
			enough := false
			t.Run("", func(t *testing.T) {
				r := newRig(t, local)
				r.log.Allow(fileLimit)
				a, b := r.open(), r.open()
				addr := b.address()
				var ep *ucp.Endpoint
				var err error
				withFiles(t, spare, func() { ep, err = a.NewEndpoint(ucp.EndpointParams{Address: addr}) })
				if err != nil {
					failed++
					if !strings.Contains(err.Error(), fileLimit) {
						t.Errorf("%d descriptors: %q does not name the limit", spare, err)
					}
					return
				}
				r.sendAndTake(ep, b, 1, ucttest.Pattern(1<<20, 1))
				text := ep.Explain().String()
				if strings.Contains(text, "too many open files") && !strings.Contains(text, fileLimit) {
					t.Errorf("%d descriptors: the explanation does not name the limit:\n%s", spare, text)
				}
				enough = ep.Attr().Transports[0].Name == "posix"
			})
			if enough {
				t.Logf("%d descriptors are enough, with fewer there was no endpoint %d times", spare, failed)
				return
			}
		}
		t.Errorf("%d descriptors are not enough", tries)
	})
	t.Run("connection", func(t *testing.T) {
		r := newRig(t, byName(t, "tcp").with(setting{"TCP_MAX_CONN_RETRIES", "1"}))
		a, b := r.open(), r.open()
		addr := b.address()
		var failure error
		withFiles(t, 0, func() {
			_, err := a.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: ucp.ErrModePeer,
				OnError: func(_ *ucp.Endpoint, err error, _ any) { failure = err }})
			if err != nil {
				failure = err
				return
			}
			r.until("the end of an endpoint without a connection", func() bool { return failure != nil })
		})
		if !strings.Contains(failure.Error(), fileLimit) {
			t.Errorf("%q does not name the limit", failure)
		}
	})
	t.Run("sleep", func(t *testing.T) {
		r := newRig(t, local)
		a := r.open()
		ended, end := context.WithCancel(context.Background())
		end()
		withFiles(t, 0, func() {
			if err := a.Wait(ended); err == nil || !strings.Contains(err.Error(), fileLimit) {
				t.Errorf("%v does not name the limit", err)
			}
		})
	})
}

// TestLockLimit checks that a program that locks all its memory gets no more than it may lock, and
// that the error says so.
func TestLockLimit(t *testing.T) {
	if cgoEnabled {
		t.Skip("threads need more memory that is locked, and the C library ends the program without it")
	}
	if !confined(t, 0) {
		return
	}
	const limit, size = 8 << 20, 64 << 20
	var have unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &have); err != nil || have.Cur < limit {
		needtest.Right(t, fmt.Sprintf("the right to lock %d bytes of memory: %d, %v", limit, have.Cur, err))
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // root may exceed the limit
		if err := syscall.Setresuid(65534, 65534, 65534); err != nil {
			needtest.Right(t, fmt.Sprintf("another user to become: %v", err))
		}
	}
	r := newRig(t, transport{name: "local", settings: []setting{{"TLS", "posix,sysv,tcp"}, {"NET_DEVICES", "lo"}}})
	a, b := r.open(), r.open()
	ep := a.connect(b)
	r.sendAndTake(ep, b, 1, ucttest.Pattern(4096, 1))
	late := r.open()
	// Go's runtime exits if the heap cannot grow. So the heap grows before, and memory is locked
	// only during the calls that matter.
	heap := make([]byte, 64<<20)
	for i := 0; i < len(heap); i += 4096 {
		heap[i] = 1
	}
	runtime.KeepAlive(heap)
	runtime.GC()
	locked := func(f func()) {
		t.Helper()
		if err := unix.Mlockall(unix.MCL_FUTURE); err != nil {
			needtest.Right(t, fmt.Sprintf("the right to lock memory: %v", err))
		}
		defer unix.Munlockall()
		f()
	}
	for _, prio := range []string{"md:posix", "md:sysv", "mmap", "thp", "md:sysv,md:posix,thp,md:*,mmap,heap"} {
		ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureRMA}, (&rig{TB: t, transport: r.transport.with(setting{"ALLOC_PRIO", prio})}).config())
		if err != nil {
			t.Fatal(err)
		}
		var m *ucp.Memory
		locked(func() {
			m, err = ctx.MemMap(ucp.MemMapParams{Length: size, Flags: ucp.MemMapAllocate | ucp.MemMapNonblock})
		})
		if err == nil {
			t.Errorf("%s: more than may be locked", prio)
			m.Close()
		} else if missing, ok := saysAll(err.Error(), []string{"67108864 bytes", "8388608 bytes may be locked", "ulimit -l"}); !ok || !errors.Is(err, ucs.ErrNoMemory) {
			t.Errorf("%s: %v, want %q in it", prio, err, missing)
		}
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	}
	// What fits into the limit succeeds.
	locked(func() {
		if m, err := a.ctx.MemMap(ucp.MemMapParams{Length: 1 << 20, Flags: ucp.MemMapAllocate}); err != nil {
			t.Error(err)
		} else if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	r.sendAndTake(ep, b, 1, ucttest.Pattern(1<<20, 1))
	// The buffers for a new peer do not fit: messages take another transport, and the explanation
	// has the reason.
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit / 4, Max: limit}); err != nil {
		t.Fatal(err)
	}
	locked(func() { ep = late.connect(b) })
	r.sendAndTake(ep, b, 2, ucttest.Pattern(4096, 2))
	explained := ep.Explain().String()
	if missing, ok := saysAll(explained, []string{"mapping 4", " bytes of the peer", "2097152 bytes may be locked", "ulimit -l"}); !ok {
		t.Errorf("%s\nwant %q in it", explained, missing)
	}
}
