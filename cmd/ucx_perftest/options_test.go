//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

func TestParseOptions(t *testing.T) {
	defaults := func(f func(o *options)) *options {
		o := &options{port: 13337, network: "tcp4", peer: perfoob.Release122, params: defaultParams()}
		f(o)
		return o
	}
	tests := []struct {
		args string
		want *options
	}{
		{"", defaults(func(*options) {})},
		{"-t tag_lat host", defaults(func(o *options) {
			o.server, o.params.Test = "host", perfoob.TestByName("tag_lat")
		})},
		{"host -p 99 -6 --peer 1.13", defaults(func(o *options) {
			o.server, o.port, o.network, o.peer = "host", 99, "tcp6", perfoob.Release113
		})},
		{"-vfNc 0,1 -bx -by", defaults(func(o *options) {
			o.csv, o.final, o.numeric, o.cpus, o.batches = true, true, true, []int{0, 1}, []string{"x", "y"}
		})},
		{"-n0 -w 5 -s16,48 -i 64 -O7 -W 3 -H16 -R 99.9", defaults(func(o *options) {
			p := &o.params
			p.Iters, p.WarmupIters, p.Sizes, p.Stride, p.Window = 0, 5, []int{16, 48}, 64, 7
			p.FCWindow, p.UCTHeader, p.UCPHeader, p.Percentile = 3, 16, 16, 99.9
		})},
		{"-s 1024:3", defaults(func(o *options) { o.params.Sizes = []int{1024, 1024, 1024} })},
		{"-lCUIe -q", defaults(func(o *options) {
			o.params.Flags = perfoob.FlagLoopback | perfoob.FlagTagWildcard | perfoob.FlagTagUnexpProbe |
				perfoob.FlagWakeup | perfoob.FlagErrHandling
		})},
		{"-D iov,contig -E sleep -M multi -T 1 -m host,host", defaults(func(o *options) {
			p := &o.params
			p.SendType, p.WaitMode, p.ThreadMode = perfoob.IOV, perfoob.WaitSleep, ucs.ThreadModeMulti
		})},
		{"-T 7 --shared -E block", defaults(func(o *options) {
			o.params.Threads, o.params.shared, o.params.block, o.params.WaitMode = 7, true, true, perfoob.WaitPoll
		})},
		{"-E block -E sleep", defaults(func(o *options) { o.params.WaitMode = perfoob.WaitSleep })},
		{"-oByz -r recv_data -A signal -X", defaults(func(o *options) {
			o.params.Flags |= perfoob.FlagOneSided | perfoob.FlagMapNonblock | perfoob.FlagAMReceiverCopies |
				perfoob.FlagPreregistered | perfoob.FlagStreamRecvData
			o.params.Async, o.params.extra = perfoob.AsyncSignal, true
		})},
		{"-r recv_data -r recv -A thread_mutex", defaults(func(o *options) { o.params.Async = perfoob.AsyncThreadMutex })},
		{"-W 128 -m host -P 0", defaults(func(o *options) { o.params.FCWindow = 128 })},
		{"-W 0 -t tag_bw", defaults(func(o *options) { o.params.FCWindow, o.params.Test = 0, perfoob.TestByName("tag_bw") })},
		{"-T 2:3 -L warp -F 7 -Y random:9", defaults(func(o *options) {
			o.params.Threads = 2
			o.params.Accelerated = perfoob.Accelerated{
				Level: perfoob.LevelWarp, Channels: perfoob.ChannelsRandom, Seed: 9, Blocks: 3, Window: 7,
			}
		})},
		{"-Y random", defaults(func(o *options) { o.params.Accelerated.Channels = perfoob.ChannelsRandom })},
		{"-L grid -Y per-thread -T 2:3 -T 4", defaults(func(o *options) {
			o.params.Threads = 4
			o.params.Accelerated.Level, o.params.Accelerated.Channels = perfoob.LevelGrid, perfoob.ChannelsPerThread
		})},
		{"-d lo -x tcp -Dzcopy", defaults(func(o *options) {
			o.params.Device, o.params.Transport, o.params.Layout = "lo", "tcp", perfoob.Zcopy
		})},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			got, err := parseOptions(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(options{}, params{})); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedOptions(t *testing.T) {
	tests := []struct {
		args string
		code int
		want string // in the message
	}{
		{"-a cuda", exitUnsupported, "-a cuda: operations started by accelerators: not supported"},
		{"-a host:0,rocm:1", exitUnsupported, "-a host:0,rocm:1: operations started by accelerators"},
		{"-a gpu", exitUsage, `-a "gpu", need one of cuda, cuda-managed, gaudi, host, `},
		{"-a cuda:x", exitUsage, `-a "cuda:x", need a number of a device`},
		{"-a cuda:-1", exitUsage, `-a "cuda:-1"`}, {"-a cuda,", exitUsage, `-a ""`},
		{"-L lane", exitUsage, `-L "lane", need one of block, grid, thread, warp`},
		{"-F 0", exitUsage, `-F "0", need a number from 1`}, {"-F x", exitUsage, `-F "x"`},
		{"-Y some", exitUsage, `-Y "some", need one of per-thread, random, single`}, {"-Y random:x", exitUsage, `-Y "x"`},
		{"-Y single:1", exitUsage, `-Y "single:1", need a seed after random only`},
		{"-T 2:0", exitUsage, `-T "2:0", need a number from 1`}, {"-T 2:", exitUsage, `-T ""`}, {"-T 0", exitUsage, `-T "0"`},
		{"-T 129", exitUsage, "thread count 129"}, {"-s 8388609 -T 128", exitUsage, "8388609"},
		{"-m cuda", exitUnsupported, "memory type cuda (GPU memory), expected host"},
		{"-m host,cuda", exitUnsupported, "memory type cuda (GPU"}, {"-m rocm-managed,ze-host", exitUnsupported, "memory type rocm-managed (GPU"},
		{"-m rdma", exitUnsupported, "memory type rdma (memory on RDMA devices), expected host"},
		{"-m cuda,moon", exitUsage, `-m "moon", need one of cuda, `}, {"-m host,", exitUsage, `-m ""`},
		{"-K mlx5_0:1", exitUnsupported, "-K"}, {"--daemon-local 1.2.3.4", exitUnsupported, "-g"}, {"-G 1.2.3.4", exitUnsupported, "-G"},
		{"-A poll", exitUsage, `-A "poll", need one of signal, thread, `}, {"-r send", exitUsage, `-r "send"`},
		{"-P 1", exitUnsupported, "-P, setup by MPI: not supported"}, {"-P x", exitUsage, `-P "x", need 0 or 1`},
		{"-k", exitUnsupported, "-k"}, {"-S", exitUnsupported, "-S"},
		{"-t nothing", exitUsage, `"nothing"`}, {"-Q", exitUsage, "'Q'"}, {"-n", exitUsage, "'n'"}, {"-n -5", exitUsage, `-n "-5"`}, {"-n 1e6", exitUsage, `-n "1e6"`},
		{"-s 8,", exitUsage, `-s ""`}, {"-s -1", exitUsage, `-s "-1"`}, {"-s 8:0", exitUsage, `-s "8:0"`}, {"-s 8:129", exitUsage, `-s "8:129"`},
		{"-s 99999999999999999999", exitUsage, `-s "99999999999999999999"`}, {"-s 2000000000", exitUsage, "2000000000"}, {"-O 4294967296", exitUsage, `-O "4294967296"`},
		{"-p 65536", exitUsage, `-p "65536"`}, {"-R 101", exitUsage, `-R "101"`}, {"-R x", exitUsage, `-R "x"`}, {"-R NaN", exitUsage, `-R "NaN"`},
		{"-W x", exitUsage, `-W "x"`}, {"-D odd", exitUsage, `-D "odd"`},
		{"-W 128 -t am_lat", exitUsage, "window 128 (-W), test am_lat needs 0 to 127"}, {"-t am_bw -W 0", exitUsage, "window 0 (-W), test am_bw needs 1 to 127"},
		{"-D iov,odd", exitUsage, `-D "iov,odd"`}, {"-E never", exitUsage, `-E "never", need one of block, poll, sleep`}, {"-M many", exitUsage, `-M "many"`}, {"-c 1,x", exitUsage, `-c "x"`},
		{"-s 16 -i 8", exitUsage, "stride of 8"}, {"--peer 1.12", exitUsage, `"1.12"`}, {"-l", exitUsage, "127.0.0.1 with -l"},
		{"host", exitUsage, `unexpected argument "host"`}, {"--nothing", exitUsage, "'--nothing'"}, {"--peer", exitUsage, "'--peer'"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr strings.Builder
			// No server listens at this port: a command that is accepted must not wait for clients.
			args := append([]string{"127.0.0.1", "-p", "1"}, strings.Fields(tt.args)...)
			if code := run(args, &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if !strings.HasPrefix(stderr.String(), "ucx_perftest: ") || strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("message %q", stderr.String())
			}
			if !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("message %q, want %q in it", stderr.String(), tt.want)
			}
			if usage := strings.Contains(stdout.String(), "Usage:"); usage != (tt.code == exitUsage) {
				t.Errorf("usage printed: %v", usage)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run([]string{"-t", "tag_lat", "-h"}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Errorf("exit code %d, message %q", code, stderr.String())
	}
	for i := range perfoob.Tests {
		if name := perfoob.Tests[i].Name; !strings.Contains(stdout.String(), " "+name+" - ") {
			t.Errorf("%s is missing", name)
		}
	}
	// Every option of C is described, or the help says why it is missing.
	for _, letter := range letters + testLetters {
		if strings.ContainsRune(":kS", letter) {
			continue // letters that C accepts and ignores
		}
		if !strings.Contains(stdout.String(), " -"+string(letter)+" ") {
			t.Errorf("-%c is missing", letter)
		}
	}
}

// TestCheck passes parameters that only a client of C's tool can send.
func TestCheck(t *testing.T) {
	tests := []struct {
		name   string
		change func(p *params)
		want   error
	}{
		{"fine", func(*params) {}, nil},
		{"no test", func(p *params) { p.Test = nil }, errNoTest},
		{"threads", func(p *params) { p.Threads = 2 }, nil},
		{"threads over UCT", func(p *params) {
			p.Test, p.Device, p.Transport, p.Threads = perfoob.TestByName("am_lat"), "lo", "tcp", 2
		}, ucs.ErrUnsupported},
		{"shared, and one-sided", func(p *params) { p.Test, p.shared = perfoob.TestByName("ucp_get"), true }, ucs.ErrUnsupported},
		{"shared, and any tag", func(p *params) { p.Flags, p.shared = perfoob.FlagTagWildcard, true }, ucs.ErrInvalidParam},
		{"shared, and asleep", func(p *params) { p.WaitMode, p.shared = perfoob.WaitSleep, true }, ucs.ErrInvalidParam},
		{"blocking", func(p *params) { p.block = true }, nil},
		{"blocking, one-sided", func(p *params) { p.Test, p.block = perfoob.TestByName("ucp_get"), true }, ucs.ErrUnsupported},
		{"blocking over UCT", func(p *params) {
			p.Test, p.Device, p.Transport, p.block = perfoob.TestByName("am_lat"), "lo", "tcp", true
		}, ucs.ErrUnsupported},
		{"blocking, scattered", func(p *params) { p.RecvType, p.block = perfoob.IOV, true }, ucs.ErrUnsupported},
		{"blocking, with itself", func(p *params) { p.Flags, p.block = perfoob.FlagLoopback, true }, ucs.ErrUnsupported},
		{"blocking, probing", func(p *params) { p.Flags, p.block = perfoob.FlagTagUnexpProbe, true }, ucs.ErrUnsupported},
		{"memory", func(p *params) { p.RecvMem = ucs.MemoryCUDA }, errLeftOut},
		{"passive, but not one-sided", func(p *params) { p.Flags |= perfoob.FlagOneSided }, ucs.ErrInvalidParam},
		{"registered", func(p *params) { p.Flags |= perfoob.FlagPreregistered }, nil},
		{"blocking, active messages", func(p *params) { p.Test, p.block = perfoob.TestByName("ucp_am_lat"), true }, ucs.ErrUnsupported},
		{"shared, streams", func(p *params) { p.Test, p.shared = perfoob.TestByName("stream_bw"), true }, ucs.ErrUnsupported},
		{"spinning", func(p *params) { p.WaitMode = perfoob.WaitSpin }, errLeftOut},
		{"no device", func(p *params) { p.Test, p.Transport = perfoob.TestByName("am_lat"), "self" }, ucs.ErrInvalidParam},
		{"no transport", func(p *params) { p.Test, p.Device = perfoob.TestByName("am_lat"), "memory" }, ucs.ErrInvalidParam},
		{"nothing to put", func(p *params) {
			p.Test, p.Device, p.Transport, p.Sizes = perfoob.TestByName("put_bw"), "memory", "self", []int{0}
		}, ucs.ErrInvalidParam},
		{"huge", func(p *params) { p.Sizes = []int{perfoob.MaxMessage, 1} }, ucs.ErrInvalidParam},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := defaultParams()
			p.Test = perfoob.TestByName("tag_bw")
			tt.change(&p)
			if err := adjust(&p); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if tt.want == nil && p.Window != 32 {
				t.Errorf("window %d, want the test's own, 32", p.Window)
			}
		})
	}
}
