package ucp

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs/config"
)

// cDefault is a setting of C UCX with its default, as ucx_info -c prints it.
type cDefault struct{ name, value string }

// cDefaults reads the settings that a release of C UCX prints.
func cDefaults(t *testing.T, release string) (list []cDefault) {
	t.Helper()
	f, err := os.Open("testdata/settings-" + release + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, value, ok := strings.Cut(sc.Text(), "=")
		if ok && !strings.HasPrefix(name, "#") {
			list = append(list, cDefault{name, value})
		}
	}
	return list
}

// cReleases are the releases whose defaults are kept, with their numbers of settings.
var cReleases = map[string]int{"1.22.0": 738, "1.13.1": 472}

// TestDefaultsOfC: each default that C UCX prints is a value that this library takes from the
// environment, one at a time and all together.
func TestDefaultsOfC(t *testing.T) {
	for release, n := range cReleases {
		t.Run(release, func(t *testing.T) {
			list := cDefaults(t, release)
			if len(list) != n {
				t.Fatalf("%d settings, want %d", len(list), n)
			}
			defaults := (*config.Set)(nil)
			for _, d := range list {
				if value, _, known := defaults.Lookup(d.name); !known || value == d.value {
					continue // there is no other value to parse
				}
				if err := startWith(t, d); err != nil {
					t.Errorf("UCX_%s=%s: %v", d.name, d.value, err)
				}
			}
			if err := startWith(t, list...); err != nil {
				t.Errorf("all together: %v", err)
			}
		})
	}
}

// startWith opens a worker over the transports self, tcp and those of shared memory, under
// settings of the environment.
func startWith(t *testing.T, list ...cDefault) error {
	for _, d := range list {
		name := "UCX_" + d.name
		previous, was := os.LookupEnv(name)
		os.Setenv(name, d.value)
		defer func() {
			os.Unsetenv(name)
			if was {
				os.Setenv(name, previous)
			}
		}()
	}
	cfg, err := ReadConfig("", "")
	if err != nil {
		return err
	}
	ctx, err := NewContext(ContextParams{Features: FeatureTag}, cfg)
	if err != nil {
		return err
	}
	defer ctx.Close()
	for _, s := range ctx.skipped {
		if strings.Contains(s.reason, "UCX_") && !strings.Contains(s.reason, "UCX_TLS") {
			return fmt.Errorf("%v", s)
		}
	}
	w, err := ctx.NewWorker(WorkerParams{})
	if err != nil {
		return err
	}
	return w.Close()
}

// TestValuesOfC: values that C UCX takes and that are not its defaults.
func TestValuesOfC(t *testing.T) {
	for _, d := range []cDefault{
		{"RNDV_THRESH", "8k,intra:64k"}, {"RNDV_THRESH", "intra:8k,inter:18446744073709551615"}, {"SYSV_SEND_OVERHEAD", "1us"},
		{"MM_RECV_OVERHEAD", "1us,am_bcopy:20ns"}, {"TCP_MAX_POLL", "inf"}, {"TCP_MAX_POLL", "-1"}, {"POSIX_RX_MAX_BUFS", "inf"},
		{"CMA_TX_MAX_BUFS", "inf"}, {"KEEPALIVE_NUM_EPS", "inf"}, {"ZCOPY_THRESH", "18446744073709551615"}, {"MULTI_LANE_MAX_RATIO", "inf"},
		{"RC_VERBS_TX_MAX_WR", "64"}, {"PROTO_INFO", "used"}, {"PROTO_INFO", "*tag*gpu*"}, {"NET_DEVICES", "^eth[0-3]"},
		{"MAX_RNDV_RAILS", "inf"}, {"TCP_MAX_BW", "10Gb/s"}, {"KEEPALIVE_INTERVAL", "1500000us"},
	} {
		if err := startWith(t, d); err != nil {
			t.Errorf("UCX_%s=%s: %v", d.name, d.value, err)
		}
	}
}

// TestNamesOfC: each name that C UCX prints is either a setting of this library or in the list
// of those that have no effect here, with the reason.
func TestNamesOfC(t *testing.T) {
	for release := range cReleases {
		for _, d := range cDefaults(t, release) {
			cfg, err := ReadConfig("", "")
			if err != nil {
				t.Fatal(err)
			}
			_, _, known := cfg.set.Lookup(d.name)
			switch why := config.NoEffect(d.name); {
			case known && why != "":
				t.Errorf("%s: UCX_%s is a setting and has no effect (%s)", release, d.name, why)
			case !known && why == "":
				t.Errorf("%s: UCX_%s is neither a setting nor known to have no effect", release, d.name)
			}
		}
	}
}
