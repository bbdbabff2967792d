//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestDefaults checks the defaults that depend on the test and on other flags; the numbers are
// those that the C tools print for the same command lines.
func TestDefaults(t *testing.T) {
	base := options{tcpPort: 18515, ibPort: 1, gid: -1, conn: verbs.RC, postList: 1, wantInline: -1, timeout: 14,
		iters: 1000, rxDepth: 1, txDepth: 1, cqMod: 1, size: 2}
	for args, change := range map[string]func(*options){
		"write_lat":       func(o *options) { o.test = test{verbWrite, false} },
		"ib_write_lat -a": func(o *options) { o.test = test{verbWrite, false}; o.all, o.size = true, 1<<23 },
		"read_lat -o 4":   func(o *options) { o.test = test{verbRead, false}; o.outReads = 4 },
		"atomic_lat -A CMP_AND_SWAP": func(o *options) {
			o.test = test{verbAtomic, false}
			o.size, o.swap = 8, true
		},
		"send_lat h -n 10 -F": func(o *options) {
			o.test, o.host, o.iters, o.rxDepth = test{verbSend, false}, "h", 10, 10
		},
		"send_lat -c UD -s 1K": func(o *options) {
			o.test, o.conn, o.rxDepth, o.size, o.sized = test{verbSend, false}, verbs.UD, 1000, 1024, true
		},
		"write_bw": func(o *options) {
			o.test, o.size, o.iters, o.txDepth = test{verbWrite, true}, 65536, 5000, 128
		},
		"write_bw --size=4096 --tx-depth 20": func(o *options) {
			o.test, o.size, o.sized, o.iters, o.txDepth, o.cqMod = test{verbWrite, true}, 4096, true, 5000, 20, 20
		},
		"read_bw -l 10 -s 64 -N": func(o *options) {
			o.test, o.size, o.sized, o.txDepth, o.cqMod, o.postList, o.noPeak = test{verbRead, true}, 64, true, 128, 10, 10, true
		},
		"send_bw -p 0x10 -i 2 -x 3 -d rxe7 -m 1024 -I 64 -u 10 -r 9 -e": func(o *options) {
			o.test, o.size, o.txDepth, o.rxDepth, o.cqMod, o.noPeak = test{verbSend, true}, 65536, 128, 9, 100, true
			o.tcpPort, o.ibPort, o.gid, o.device, o.wantMTU, o.wantInline, o.timeout, o.events = 16, 2, 3, "rxe7", 1024, 64, 10, true
		},
		"send_bw -b": func(o *options) {
			o.test, o.size, o.txDepth, o.rxDepth, o.both = test{verbSend, true}, 65536, 128, 512, true
		},
		"atomic_bw -D 9 -n 10": func(o *options) {
			o.test, o.size, o.txDepth, o.cqMod, o.iters = test{verbAtomic, true}, 8, 128, 100, 10
			o.duration, o.margin, o.noPeak = 9*time.Second, 2*time.Second, true
		},
	} {
		want := base
		change(&want)
		got, err := parseOptions(strings.Fields(args))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if d := cmp.Diff(want, *got, cmp.AllowUnexported(options{}, test{})); d != "" {
			t.Errorf("%s: -want +got:\n%s", args, d)
		}
	}
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "no test given",
		"-d rxe0 write_lat":           "must precede -d",
		"raw_lat":                     "no test",
		"write_lat a b":               "one host",
		"write_lat -s 0":              "not a size",
		"write_lat -s 2048M":          "not a size",
		"write_lat -s 1G":             "not a size",
		"write_lat -n 4":              "number from 5",
		"write_lat -m 1000":           "not one of 256",
		"write_lat -e":                "target of a write",
		"write_lat -b":                "both ways",
		"write_lat -l 2":              "post lists",
		"write_lat -N":                "have a peak",
		"write_lat -r 2":              "-r",
		"write_lat -o 2":              "no reads",
		"write_lat -A FETCH_AND_ADD":  "no atomics",
		"write_lat -c UD":             "only sends",
		"write_lat -c TCP":            "not one of RC",
		"read_lat -c UC":              "UC has no read",
		"read_lat -I 8":               "inline",
		"atomic_lat -s 4":             "8 bytes",
		"atomic_lat -a":               "8 bytes",
		"atomic_lat -A ADD":           "not one of",
		"write_bw -l 3 -n 10":         "not a multiple",
		"write_bw -l 200":             "does not fit",
		"write_bw -l 10 -Q 3 -s 8":    "not a multiple",
		"write_bw -D 0":               "number from 1",
		"write_bw -D 4 -f 2":          "two margins",
		"write_bw -D 4 -a":            "all sizes",
		"read_bw -D 4 -e":             "events",
		"write_lat -y":                "requires an argument",
		"write_lat --no-such":         "unrecognized",
		"write_lat -s":                "requires an argument",
		"write_lat -u 32":             "0 to 31",
		"write_lat -x 256":            "0 to 255",
		"write_lat -p 65536":          "1 to 65535",
		"write_bw -Q 99999999999999":  "not a number",
		"send_bw -c UD -s 9999999999": "not a size",
	} {
		if o, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want an error with %q", args, o, err, want)
		}
	}
	// Flags that only C supports have another error than unknown flags.
	for _, args := range []string{"write_lat -R", "write_bw -q 2", "send_lat -g", "send_bw -c XRC", "send_bw -b -e"} {
		if _, err := parseOptions(strings.Fields(args)); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{"-h": "Usage:", "write_lat --help": "Usage:", "-V": "Version: 6.06", "send_bw --version": "Version: 6.06"} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != 0 || !strings.HasPrefix(out.String(), want) || errs.Len() != 0 {
			t.Errorf("%q: %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"write_lat", "-R"}, &out, &errs); code != 1 || out.Len() != 0 || !strings.HasPrefix(errs.String(), "ib_perftest: -R: ") {
		t.Errorf("%d, %q, %q", code, out.String(), errs.String())
	}
}
