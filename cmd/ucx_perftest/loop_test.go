//go:build linux

package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/race"
)

// loopback returns a runner that is its own peer, from a command line.
func loopback(tb testing.TB, args ...string) (runner, *counter) {
	tb.Helper()
	tb.Setenv("UCX_TLS", "self") // for UCP; UCT tests name their transport
	o, err := parseOptions(append([]string{"-l"}, args...))
	if err != nil {
		tb.Fatal(err)
	}
	if err := adjust(&o.params); err != nil {
		tb.Fatal(err)
	}
	c := newCounters(&o.params, func(int, *result) { tb.Error("a report nobody asked for") })
	s, err := newSetup(newTeam(alone{}, 1), &o.params, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.finish(); err != nil {
			tb.Error(err)
		}
		if err := s.close(); err != nil {
			tb.Error(err)
		}
	})
	return s.thread(0), c[0]
}

// fragments is the loop whose messages are sent in several fragments.
const fragments = "tag_bw large"

var loops = []struct {
	name string
	args []string
}{
	{"tag_lat", []string{"-t", "tag_lat"}},
	{"tag_lat of nothing", []string{"-t", "tag_lat", "-s0"}},
	{"tag_lat of parts", []string{"-t", "tag_lat", "-s8,16,4", "-i100", "-Diov,iov"}},
	{"tag_lat wildcard", []string{"-t", "tag_lat", "-C"}},
	{"tag_lat unexpected", []string{"-t", "tag_lat", "-U"}},
	{"tag_bw", []string{"-t", "tag_bw", "-s1000"}},
	{fragments, []string{"-t", "tag_bw", "-s200000"}},
	{"tag_sync_lat", []string{"-t", "tag_sync_lat"}},
	{"tag_sync_bw", []string{"-t", "tag_sync_bw"}},
	{"ucp_am_lat", []string{"-t", "ucp_am_lat"}},
	{"ucp_am_lat of nothing", []string{"-t", "ucp_am_lat", "-s0"}},
	{"ucp_am_lat with header", []string{"-t", "ucp_am_lat", "-H32"}},
	{"ucp_am_lat of parts", []string{"-t", "ucp_am_lat", "-s8,16,4", "-i100", "-Diov,iov"}},
	{"ucp_am_bw", []string{"-t", "ucp_am_bw", "-s1000", "-yz"}},
	{"ucp_am_bw large", []string{"-t", "ucp_am_bw", "-s200000"}},
	{"ucp_am_bw offered", []string{"-t", "ucp_am_bw", "-s2000000"}},
	{"stream_lat", []string{"-t", "stream_lat"}},
	{"stream_lat of nothing", []string{"-t", "stream_lat", "-s0"}},
	{"stream_lat of parts", []string{"-t", "stream_lat", "-s8,16,4", "-i100", "-Diov,iov"}},
	{"stream_lat in place", []string{"-t", "stream_lat", "-rrecv_data"}},
	{"stream_bw", []string{"-t", "stream_bw", "-s1000"}},
	{"stream_bw large", []string{"-t", "stream_bw", "-s200000"}},
	{"stream_bw in place", []string{"-t", "stream_bw", "-s1000", "-rrecv_data"}},
	{"ucp_put_lat", []string{"-t", "ucp_put_lat"}},
	{"ucp_put_bw", []string{"-t", "ucp_put_bw", "-s100000"}},
	{"ucp_get", []string{"-t", "ucp_get", "-s100000"}},
	{"ucp_add", []string{"-t", "ucp_add"}},
	{"ucp_fadd", []string{"-t", "ucp_fadd", "-s4"}},
	{"ucp_swap", []string{"-t", "ucp_swap"}},
	{"ucp_cswap", []string{"-t", "ucp_cswap"}},
	{"am_lat", []string{"-t", "am_lat", "-dmemory", "-xself"}},
	{"am_lat shortiov", []string{"-t", "am_lat", "-dmemory", "-xself", "-Dshortiov", "-s4,4"}},
	{"am_bw bcopy", []string{"-t", "am_bw", "-dmemory", "-xself", "-Dbcopy"}},
	{"put_lat", []string{"-t", "put_lat", "-dmemory", "-xself"}},
	{"am_lat tcp", []string{"-t", "am_lat", "-dlo", "-xtcp"}},
	{"am_bw tcp zcopy", []string{"-t", "am_bw", "-dlo", "-xtcp", "-Dzcopy", "-s500,500", "-O7"}},
	{"put_bw tcp", []string{"-t", "put_bw", "-dlo", "-xtcp", "-Dzcopy", "-s5000"}},
	{"put_bw bcopy", []string{"-t", "put_bw", "-dmemory", "-xself", "-Dbcopy", "-s5000"}},
	{"get bcopy", []string{"-t", "get", "-dmemory", "-xself", "-Dbcopy", "-s100"}},
	{"get_bw bcopy", []string{"-t", "get_bw", "-dmemory", "-xself", "-Dbcopy", "-s5000"}},
	{"add_lat", []string{"-t", "add_lat", "-dmemory", "-xself"}},
	{"add_lat 4", []string{"-t", "add_lat", "-dmemory", "-xself", "-s4"}},
	{"add_mr", []string{"-t", "add_mr", "-dmemory", "-xself"}},
	{"add_mr 4", []string{"-t", "add_mr", "-dmemory", "-xself", "-s4"}},
	{"fadd", []string{"-t", "fadd", "-dmemory", "-xself"}},
	{"fadd 4", []string{"-t", "fadd", "-dmemory", "-xself", "-s4"}},
	{"swap", []string{"-t", "swap", "-dmemory", "-xself"}},
	{"swap 4", []string{"-t", "swap", "-dmemory", "-xself", "-s4"}},
	{"cswap", []string{"-t", "cswap", "-dmemory", "-xself"}},
	{"cswap 4", []string{"-t", "cswap", "-dmemory", "-xself", "-s4"}},
	{"am_lat posix", []string{"-t", "am_lat", "-dmemory", "-xposix"}},
	{"am_bw posix bcopy", []string{"-t", "am_bw", "-dmemory", "-xposix", "-Dbcopy", "-s1000"}},
	{"put_bw posix", []string{"-t", "put_bw", "-dmemory", "-xposix"}},
	{"get posix", []string{"-t", "get", "-dmemory", "-xposix", "-Dbcopy"}},
	{"fadd posix", []string{"-t", "fadd", "-dmemory", "-xposix"}},
	{"add_lat sysv", []string{"-t", "add_lat", "-dmemory", "-xsysv"}},
	{"put_lat cma", []string{"-t", "put_lat", "-dmemory", "-xcma", "-Dzcopy"}},
	{"put_bw cma", []string{"-t", "put_bw", "-dmemory", "-xcma", "-Dzcopy", "-s20000"}},
	{"get cma", []string{"-t", "get", "-dmemory", "-xcma", "-Dzcopy", "-s3,5", "-i64"}},
	{"get_bw cma", []string{"-t", "get_bw", "-dmemory", "-xcma", "-Dzcopy", "-s20000"}},
}

// TestLoops runs every loop over the self transport and counts iterations.
func TestLoops(t *testing.T) {
	for _, l := range loops {
		t.Run(l.name, func(t *testing.T) {
			r, c := loopback(t, l.args...)
			for _, n := range []uint64{1, 2, 1000} {
				c.prepare(n, forever, forever)
				if err := r.stage(); err != nil {
					t.Fatal(err)
				}
				if c.iters != n {
					t.Errorf("%d iterations, want %d", c.iters, n)
				}
			}
		})
	}
}

// TestLoopAllocs checks that measuring does not disturb the result: no loop allocates.
func TestLoopAllocs(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, l := range loops {
		if l.name == fragments {
			continue // unexpected messages are kept in pieces, which allocates
		}
		t.Run(l.name, func(t *testing.T) {
			r, c := loopback(t, l.args...)
			run := func() {
				c.prepare(200, forever, forever)
				if err := r.stage(); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 { // a request is not reused at once: the first runs allocate them
				run()
			}
			if n := testing.AllocsPerRun(5, run); n > 0 {
				t.Errorf("%v allocations in 200 iterations", n)
			}
		})
	}
}

func BenchmarkLoops(b *testing.B) {
	for _, l := range loops {
		b.Run(l.name, func(b *testing.B) {
			r, c := loopback(b, l.args...)
			c.prepare(uint64(b.N), forever, forever)
			b.ReportAllocs()
			b.ResetTimer()
			if err := r.stage(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// TestRunLoopback runs whole tests, with warm-up and reports.
func TestRunLoopback(t *testing.T) {
	t.Setenv("UCX_TLS", "self")
	run := func(name string, threads uint32) {
		t.Run(fmt.Sprintf("%s -T %d", name, threads), func(t *testing.T) {
			p := defaultParams()
			p.Test = perfoob.TestByName(name)
			p.Flags |= perfoob.FlagLoopback
			p.Iters, p.WarmupIters, p.Threads = 500, 100, threads
			if err := adjust(&p); err != nil {
				t.Fatal(err)
			}
			if err := runTest(alone{}, &p, &printer{w: io.Discard, results: true}); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, name := range []string{"tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_bw", "ucp_fadd",
		"ucp_am_lat", "ucp_am_bw", "stream_lat", "stream_bw"} {
		run(name, 1)
		run(name, 3)
	}
}
