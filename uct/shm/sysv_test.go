//go:build linux

package shm

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestHugeWhere checks which segments can be in huge pages.
func TestHugeWhere(t *testing.T) {
	h := hugePageSize()
	if h == 0 {
		t.Skip("missing: huge pages in the kernel")
	}
	buffers := segmentOptions{size: h, what: "receive"}
	memory := segmentOptions{size: h - 1, mayHuge: true, what: "memory"}
	small := segmentOptions{size: pageSize, mayHuge: true, what: "memory"}
	at := segmentOptions{size: h, mayHuge: true, addr: 1 << 40, what: "memory"}
	for _, c := range []struct {
		mode                       config.Ternary
		buffers, memory, small, at int
	}{
		{config.Yes, h, h, h, 0},
		{config.Try, 0, h, 0, 0},
		{config.No, 0, 0, 0, 0},
	} {
		m := &sysv{huge: c.mode}
		for _, x := range []struct {
			what string
			o    segmentOptions
			want int
		}{{"buffers", buffers, c.buffers}, {"memory", memory, c.memory}, {"a page", small, c.small}, {"memory at an address", at, c.at}} {
			if got := m.hugeSize(x.o); got != x.want {
				t.Errorf("mode %v, %s: %d bytes in huge pages, want %d", c.mode, x.what, got, x.want)
			}
		}
	}
}

// TestSmallPagesSteady: a segment of small pages needs no fence, even if it is as long as some huge
// pages.
func TestSmallPagesSteady(t *testing.T) {
	needSegments(t, sysvName)
	noSegments(t)
	d := openDomain(component{sysvName}, &sysv{huge: config.No})
	s, err := d.m.create(segmentOptions{size: max(hugePageSize(), pageSize)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.m.destroy(s)
	a, err := d.attached.attach(reference{id: s.id}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.attached.release(a)
	if s.shrink || a.shrink {
		t.Errorf("fenced: %v, of the peer %v", s.shrink, a.shrink)
	}
}

// TestHugePagesTaken: a peer frees the huge pages of a segment, and no others are available. An
// access fails the endpoint.
func TestHugePagesTaken(t *testing.T) {
	h := hugePageSize()
	if memInfo("HugePages_Free") < 2 {
		t.Skip("missing: two huge pages (sysctl vm.nr_hugepages)")
	}
	noSegments(t)
	f := &ucttest.Fixture{Component: component{sysvName}}
	a, b := f.Pair(t)
	mem := b.Expose(t, make([]byte, h), uct.AccessAll)
	if s := mem.Handle.(*allocation).seg; !s.shrink {
		t.Fatal("memory in huge pages counts as one that stays")
	}
	key := a.Key(t, mem)
	if !key.Handle.(*remoteKey).seg.shrink {
		t.Fatal("the peer's huge pages count as ones that stay")
	}
	ep := a.Connect(t, b)
	if err := ep.(uct.RMA).PutShort(make([]byte, 8), mem.Addr, key); err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(mem.Bytes[:h], unix.MADV_REMOVE); err != nil {
		t.Fatal(err)
	}
	m := &sysv{huge: config.Yes}
	for range 1 << 16 { // take all other huge pages
		s, err := m.create(segmentOptions{size: h})
		if err != nil {
			break
		}
		defer m.destroy(s)
	}
	err := ep.(uct.RMA).PutShort(make([]byte, 8), mem.Addr, key)
	ucttest.WantStatus(t, "put to pages that are gone", err, ucs.ErrConnectionReset)
	ucttest.Until(t, "the failure", func() bool { return a.Failed(ep) != nil }, a)
}

// sysvCallsVar makes TestSysvWindow only create and destroy segments.
const sysvCallsVar = "SHM_TEST_SYSV_CALLS"

// TestSysvWindow: a process that is killed between creating a segment and marking it for removal
// leaves it behind for good. The only system call in between is shmat.
func TestSysvWindow(t *testing.T) {
	if os.Getenv(sysvCallsVar) != "" {
		m := &sysv{huge: config.No}
		for range 3 {
			s, err := m.create(segmentOptions{size: pageSize})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.destroy(s); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the calls have other names")
	}
	needtest.Strace(t)
	file := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-o", file, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), sysvCallsVar+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	inside := make(map[string][]string) // calls since shmget, by thread
	windows := 0
	for lines := bufio.NewScanner(text); lines.Scan(); {
		thread, call, _ := strings.Cut(lines.Text(), " ")
		call = strings.TrimSpace(call)
		name, _, _ := strings.Cut(call, "(")
		calls, open := inside[thread]
		switch {
		case strings.HasPrefix(call, "shmget("):
			inside[thread] = []string{}
		case !open || strings.HasPrefix(call, "---") || strings.HasPrefix(call, "<...") || name == "rt_sigreturn":
		case strings.HasPrefix(call, "shmctl(") && strings.Contains(call, "IPC_RMID"):
			windows++
			delete(inside, thread)
			if len(calls) != 1 || calls[0] != "shmat" {
				t.Errorf("between shmget and IPC_RMID: %q", calls)
			}
		default:
			inside[thread] = append(calls, name)
		}
	}
	if windows != 3 || len(inside) != 0 {
		t.Errorf("%d segments were marked for removal, %d not", windows, len(inside))
	}
}
