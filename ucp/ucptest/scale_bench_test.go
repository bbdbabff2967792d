//go:build linux

package ucptest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// allLocal is what a program uses without settings on a machine without RDMA.
var allLocal = transport{name: "all", settings: []setting{{"TLS", "self,posix,sysv,cma,tcp"}}}

// BenchmarkContext measures a context with a worker from creation to close, and the part of the
// context.
func BenchmarkContext(b *testing.B) {
	for _, tr := range []transport{allLocal, byName(b, "self"), byName(b, "tcp"), byName(b, "posix")} {
		r := &rig{TB: b, transport: tr}
		b.Run(tr.name, func(b *testing.B) {
			cfg := r.config()
			var making, closing time.Duration
			b.ReportAllocs()
			for b.Loop() {
				begin := time.Now()
				ctx, err := ucp.NewContext(ucp.ContextParams{Features: features}, cfg)
				if err != nil {
					b.Fatal(err)
				}
				made := time.Now()
				w, err := ctx.NewWorker(ucp.WorkerParams{})
				if err != nil {
					b.Fatal(err)
				}
				closed := time.Now()
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				if err := ctx.Close(); err != nil {
					b.Fatal(err)
				}
				making += made.Sub(begin)
				closing += time.Since(closed)
			}
			n := float64(b.N) * 1000
			b.ReportMetric(float64(making)/n, "µs/context")
			b.ReportMetric(float64(b.Elapsed()-making-closing)/n, "µs/worker")
			b.ReportMetric(float64(closing)/n, "µs/close")
		})
	}
}

// BenchmarkManyEndpoints measures a worker with as many endpoints as in a large job: the time to
// create them, the cost of each idle one, and how idle endpoints slow down those in use.
func BenchmarkManyEndpoints(b *testing.B) {
	for _, c := range []struct {
		name               string
		ends, active       int
		processes, workers int // of the peers
	}{
		{"tcp", 10_000, 1000, 2, 2},
		{"tcp", 1000, 1000, 2, 2},
		{"posix", 1000, 100, 1, 1000},
		{"posix", 100, 100, 1, 100},
		{"posix", 1000, 100, 1, 1},
		{"tcp", 1000, 100, 1, 1000},
	} {
		peers := c.processes * c.workers
		b.Run(fmt.Sprintf("%s/%d to %d workers", c.name, c.ends, peers), func(b *testing.B) {
			if need := max(c.ends*3/2, 8*c.workers); ucttest.Files() < need { // a quarter is not for peers
				b.Skipf("%d endpoints need %d descriptors, RLIMIT_NOFILE allows %d", c.ends, need, ucttest.Files())
			}
			r := newRig(b, byName(b, c.name))
			s := r.open()
			var addrs []ucp.Address
			for range c.processes {
				addrs = append(addrs, r.audience(c.workers)...)
			}
			// Once for each call, whatever b.N is: peers retain endpoints that are closed here, up
			// to their limits.
			s.measureEndpoints(b, addrs, c.ends, c.active)
		})
	}
}

func (s *side) measureEndpoints(b *testing.B, addrs []ucp.Address, ends, active int) {
	eps := make([]*ucp.Endpoint, ends)
	open := 0
	params := &ucp.RequestParams{OnSend: func(req *ucp.Request, err error, _ any) {
		if open--; err != nil {
			b.Error(err)
		}
		req.Free()
	}}
	send := func(ep *ucp.Endpoint) {
		req, err := ep.TagSendSync(1, nil, params)
		if err != nil {
			b.Fatal(err)
		}
		if req != nil {
			open++
		}
	}
	answered := func() {
		for open > 0 {
			s.Progress()
		}
	}
	first, err := s.NewEndpoint(ucp.EndpointParams{Address: addrs[0]}) // allocates what all share
	if err != nil {
		b.Fatal(err)
	}
	send(first)
	answered()

	before := memoryNow(b)
	begin := time.Now()
	for k := range eps {
		ep, err := s.NewEndpoint(ucp.EndpointParams{Address: addrs[k*len(addrs)/ends]})
		if err != nil {
			b.Fatal(err)
		}
		eps[k] = ep
		send(ep)
		s.Progress()
	}
	answered()
	b.ReportMetric(float64(time.Since(begin).Microseconds())/float64(ends), "µs/endpoint")
	s.rig.settle()
	after := memoryNow(b)
	for k := range after {
		b.ReportMetric(float64(after[k].bytes-before[k].bytes)/float64(ends), after[k].name+"-B/endpoint")
	}

	begin = time.Now()
	for _, ep := range eps[:active] {
		send(ep)
		answered()
	}
	b.ReportMetric(float64(time.Since(begin).Microseconds())/float64(active), "µs/first-message")

	s.rig.settle()
	const rounds = 1_000_000
	begin = time.Now()
	for range rounds {
		s.Progress()
	}
	b.ReportMetric(float64(time.Since(begin).Nanoseconds())/rounds, "ns/idle-progress")

	const bursts = 100
	begin = time.Now()
	for range bursts {
		for _, ep := range eps[:active] {
			send(ep)
		}
		answered()
	}
	b.ReportMetric(float64(bursts*active)/time.Since(begin).Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
	runtime.KeepAlive(eps)
}

// measure is one kind of memory of the process.
type measure struct {
	name  string
	bytes int64
}

// memoryNow returns the memory that Go's heap uses; the private memory of the process; the memory
// that it has mapped and touched, including shared memory; and the kernel's page tables for it.
func memoryNow(b *testing.B) [4]measure {
	b.Helper()
	debug.FreeOSMemory()
	debug.FreeOSMemory() // frees what the first collection left to finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	sizes := make(map[string]int64)
	for _, name := range []string{"smaps_rollup", "status"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var kb int64
			key, rest, _ := strings.Cut(line, ":")
			if n, _ := fmt.Sscanf(rest, "%d kB", &kb); n == 1 {
				sizes[key] = kb << 10
			}
		}
	}
	return [...]measure{
		{"heap", int64(m.HeapAlloc)}, {"private", sizes["Private_Dirty"] + sizes["Private_Clean"]},
		{"rss", sizes["Rss"]}, {"page-tables", sizes["VmPTE"]},
	}
}

// audienceVar is the environment variable that makes the test binary a process with workers that
// receive all messages. Its value is their number and the settings.
const audienceVar = "UCPTEST_AUDIENCE"

// audience starts such a process and returns the addresses of its workers.
func (r *rig) audience(workers int) []ucp.Address {
	r.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command(exe)
	list := []string{fmt.Sprint(workers)}
	for _, s := range r.settings {
		list = append(list, s.String())
	}
	cmd.Env = append(os.Environ(), audienceVar+"="+strings.Join(list, " "))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	var addrs []ucp.Address
	lines := bufio.NewScanner(out)
	for len(addrs) < workers && lines.Scan() {
		addr, err := hex.DecodeString(lines.Text())
		if err != nil {
			r.Fatalf("the audience says %q", lines.Text())
		}
		addrs = append(addrs, addr)
	}
	if len(addrs) < workers {
		r.Fatalf("%d of %d workers, then the audience has ended", len(addrs), workers)
	}
	return addrs
}

// beAudience runs that process.
func beAudience(args []string) error {
	var workers int
	if _, err := fmt.Sscan(args[0], &workers); err != nil {
		return err
	}
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return err
	}
	for _, s := range args[1:] {
		name, value, _ := strings.Cut(s, "=")
		if err := cfg.Modify(name, value); err != nil {
			return err
		}
	}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: features}, cfg)
	if err != nil {
		return err
	}
	list := make([]*ucp.Worker, workers)
	for k := range list {
		w, err := ctx.NewWorker(ucp.WorkerParams{})
		if err != nil {
			return err
		}
		addr, err := w.Address(0)
		if err != nil {
			return err
		}
		if err := takeAll(w); err != nil {
			return err
		}
		fmt.Println(hex.EncodeToString(addr))
		list[k] = w
	}
	go func() {
		os.Stdin.Read(make([]byte, 1)) // until the parent closes it
		os.Exit(0)
	}()
	for last := time.Now(); ; {
		n := 0
		for _, w := range list {
			n += w.Progress()
		}
		switch {
		case n > 0:
			last = time.Now()
		case time.Since(last) > 50*time.Millisecond: // leaves the CPU to others
			time.Sleep(time.Millisecond)
		}
	}
}

// takeAll keeps a receive posted on a worker.
func takeAll(w *ucp.Worker) error {
	params := &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
		req.Free()
		if err == nil {
			takeAll(w)
		}
	}}
	for {
		req, err := w.TagRecv(1, ucp.FullMask, nil, params)
		if req != nil || err != nil {
			return err
		}
	}
}
