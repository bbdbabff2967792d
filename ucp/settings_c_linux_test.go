package ucp

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
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

// cReleases are the releases of C UCX whose defaults are in testdata, with their numbers of
// settings.
var cReleases = map[string]int{"1.22.0": 738, "1.13.1": 472}

// TestDefaultsOfC checks that this library accepts each default that C UCX prints as a value in the
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
					continue // nothing new to parse
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

// startWith opens and closes a worker over the default transports with the given settings in the
// environment.
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

// TestValuesOfC checks that this library accepts values of C UCX that are not defaults.
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

// TestGeneralNames checks that a name without a transport, or with that of a group of transports,
// sets the value of each of them, and that a more specific name has priority.
func TestGeneralNames(t *testing.T) {
	for _, tc := range []struct{ value, weak, strong, sets string }{
		{"ERROR", "FAILURE", "SM_FAILURE", "POSIX_FAILURE SYSV_FAILURE CMA_FAILURE"},
		{"ERROR", "SM_FAILURE", "MM_FAILURE", "POSIX_FAILURE SYSV_FAILURE"},
		{"ERROR", "SM_FAILURE", "SCOPY_FAILURE", "CMA_FAILURE"},
		{"ERROR", "FAILURE", "TCP_FAILURE", "TCP_FAILURE"},
		{"ERROR", "FAILURE", "SELF_FAILURE", "SELF_FAILURE"},
		{"ERROR", "FAILURE", "IB_FAILURE", "RC_VERBS_FAILURE UD_VERBS_FAILURE"},
		{"ERROR", "IB_FAILURE", "UD_FAILURE", "UD_VERBS_FAILURE"},
		{"7", "MAX_NUM_EPS", "SM_MAX_NUM_EPS", "POSIX_MAX_NUM_EPS SYSV_MAX_NUM_EPS CMA_MAX_NUM_EPS"},
		{"7", "MAX_NUM_EPS", "IB_MAX_NUM_EPS", "RC_VERBS_MAX_NUM_EPS UD_VERBS_MAX_NUM_EPS"},
		{"7", "MAX_NUM_EPS", "TCP_MAX_NUM_EPS", "TCP_MAX_NUM_EPS"},
		{"7", "MAX_NUM_EPS", "SELF_MAX_NUM_EPS", "SELF_MAX_NUM_EPS"},
		{"7", "IB_MAX_NUM_EPS", "RC_MAX_NUM_EPS", "RC_VERBS_MAX_NUM_EPS"},
		{"7", "SM_MAX_NUM_EPS", "MM_MAX_NUM_EPS", "POSIX_MAX_NUM_EPS SYSV_MAX_NUM_EPS"},
		{"7", "SM_MAX_NUM_EPS", "SCOPY_MAX_NUM_EPS", "CMA_MAX_NUM_EPS"},
		{"7MBs", "SM_BW", "MM_BW", "POSIX_BW SYSV_BW"},
		{"7MBs", "SM_BW", "SCOPY_BW", "CMA_BW"},
		{"no", "MM_HUGETLB_MODE", "SYSV_HUGETLB_MODE", "SYSV_HUGETLB_MODE"},
		{"no", "MM_HUGETLB_MODE", "POSIX_HUGETLB_MODE", "POSIX_HUGETLB_MODE"},
		{"7", "SCOPY_MAX_IOV", "CMA_MAX_IOV", "CMA_MAX_IOV"},
		{"7K", "SCOPY_SEG_SIZE", "CMA_SEG_SIZE", "CMA_SEG_SIZE"},
		{"7", "SCOPY_TX_QUOTA", "CMA_TX_QUOTA", "CMA_TX_QUOTA"},
		{"7", "SCOPY_TX_MAX_BUFS", "CMA_TX_MAX_BUFS", "CMA_TX_MAX_BUFS"},
	} {
		for _, name := range []string{tc.weak, tc.strong} {
			t.Setenv("UCX_"+name, tc.value)
			cfg, err := ReadConfig("", "")
			if err != nil {
				t.Fatal(err)
			}
			if err := cfg.set.Check(); err != nil {
				t.Errorf("UCX_%s=%s: %v", name, tc.value, err)
			}
			for _, sets := range strings.Fields(tc.sets) {
				if value, from, _ := cfg.set.Lookup(sets); value != tc.value || from.Variable != "UCX_"+name {
					t.Errorf("UCX_%s=%s beside weaker ones: UCX_%s is %s from %v", name, tc.value, sets, value, from)
				}
			}
		}
		os.Unsetenv("UCX_" + tc.weak)
		os.Unsetenv("UCX_" + tc.strong)
	}
}

// TestGeneralValue checks that interfaces use the values of general names.
func TestGeneralValue(t *testing.T) {
	ctx := contextFor(t, FeatureTag, "TLS", "self,tcp,posix,cma", "MAX_NUM_EPS", "7", "SM_MAX_NUM_EPS", "8", "SCOPY_MAX_NUM_EPS", "9")
	defer ctx.Close()
	w, err := ctx.NewWorker(WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	want := map[string]int{"self": 7, "tcp": 7, "posix": 8, "cma": 9}
	for _, i := range w.ifaces {
		name := i.attr.Resource.Transport
		if n, ok := want[name]; ok && i.attr.MaxEndpoints != n {
			t.Errorf("%s scales to %d endpoints, want %d", name, i.attr.MaxEndpoints, n)
		}
	}
}

// TestModifyNames checks that Modify refuses names with the prefix and misspelt names, and that the
// error has the right name.
func TestModifyNames(t *testing.T) {
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"UCX_TLS": `without its prefix, "TLS"`, "APP_UCX_TCP_ALLOW": `without its prefix, "TCP_ALLOW"`, "TSL": `nearest "TLS"`,
		"RNDV_TRESH": `nearest "RNDV_THRESH"`, "TLS": "", "NOBODY_KNOWS_THIS": "", "RC_MLX5_TM_ENABLE": "", "*_SEG_SIZE": "",
	} {
		value := "64k"
		if strings.HasSuffix(name, "TLS") {
			value = "self"
		}
		err := cfg.Modify(name, value)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !errors.Is(err, ucs.ErrInvalidParam)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestSchemeRefused checks that rendezvous pipelines are refused, and that the error names an
// alternative.
func TestSchemeRefused(t *testing.T) {
	for _, scheme := range []string{"get_ppln", "put_ppln", "put_pipeline"} {
		err := startWith(t, cDefault{"RNDV_SCHEME", scheme})
		if !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), "UCX_RNDV_SCHEME") || !strings.Contains(err.Error(), "put_zcopy") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// TestWrongValues checks that a value that can be parsed but is out of range fails NewContext, even
// if the transport is not selected or has no device.
func TestWrongValues(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"TCP_ALLOW", "10.0.0/8", "10.0.0/8"},
		{"TCP_PORT_RANGE", "99999", "65535"},
		{"TCP_AF_PRIO", "inet7", "inet6"},
		{"TCP_SYN_CNT", "128", "127"},
		{"TCP_CM_PRIV_DATA_LEN", "1m", "64K"},
		{"RDMA_CM_SOURCE_ADDRESS", "here", "IP address"},
		{"SELF_NUM_DEVICES", "0", "1 to 64"},
		{"SELF_SEG_SIZE", "1", "64 bytes"},
		{"POSIX_FIFO_SIZE", "100", "power of two"},
		{"SYSV_FIFO_ELEM_SIZE", "100", "multiple of 8"},
		{"POSIX_RX_GROW_FACTOR", "0.5", "at least 1"},
		{"CMA_MAX_IOV", "0", "at least 1"},
		{"RC_VERBS_RETRY_COUNT", "8", "0 to 7"},
		{"UD_VERBS_TIMER_BACKOFF", "0.5", "1 at least"},
		{"IB_SL", "16", "15"},
		{"IB_ROCE_SUBNETS", "10.0.0/8", "10.0.0/8"},
	} {
		cfg, err := ReadConfig("", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []cDefault{{"TLS", "self"}, {tc.name, tc.value}} {
			if err := cfg.Modify(s.name, s.value); err != nil {
				t.Fatal(err)
			}
		}
		ctx, err := NewContext(ContextParams{}, cfg)
		if err == nil {
			ctx.Close()
		}
		_, setting, _ := strings.Cut(tc.name, "_") // the error may have another prefix
		if !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), setting) {
			t.Errorf("UCX_%s=%s: %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
}

// otherDefaults are the settings whose default differs from that of C UCX 1.22, with the reason.
var otherDefaults = map[string]string{
	"RNDV_PERF_DIFF":       "the estimates that it corrects are others",
	"SYSV_RX_GROW_FACTOR":  "one default for both transports over shared memory, that of POSIX_RX_GROW_FACTOR",
	"RC_VERBS_TX_MAX_BUFS": "auto is a limit by the memory that can be pinned, -1 means none",
	"RC_VERBS_RX_MAX_BUFS": "auto is a limit by the length of the receive queue, -1 means none",
	"UD_VERBS_TX_MAX_BUFS": "auto is a limit of its own, -1 means none",
	"UD_VERBS_RX_MAX_BUFS": "auto is a limit by the length of the receive queue, -1 means none",
}

// TestSettingsAsCPrintsThem checks that settings of C UCX are printed in its order and with its
// defaults, literally, and that settings of this module alone follow at the end of their section.
func TestSettingsAsCPrintsThem(t *testing.T) {
	values := make(map[string]string)
	var order []string
	for _, d := range cDefaults(t, "1.22.0") {
		values[d.name] = d.value
		order = append(order, d.name)
	}
	var text strings.Builder
	if err := (*config.Set)(nil).Write(&text, "", config.PrintConfig|config.PrintHeader); err != nil {
		t.Fatal(err)
	}
	var got []string
	own := "" // the last setting of this module alone in the current section
	differ := make(map[string]bool)
	for line := range strings.Lines(text.String()) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name, _ = strings.CutPrefix(name, "UCX_")
		switch want, known := values[name]; {
		case strings.HasPrefix(line, "#"):
			own = ""
		case ok && !known:
			own = name
		case ok:
			got = append(got, name)
			if own != "" {
				t.Errorf("%s, which C has not, is before %s", own, name)
			}
			if differ[name] = value != want; differ[name] != (otherDefaults[name] != "") {
				t.Errorf("default of %s: %s, that of C is %s", name, value, want)
			}
		}
	}
	for name := range otherDefaults {
		if !differ[name] {
			t.Errorf("%s differs no more", name)
		}
	}
	own = "LOG_DATA_SIZE" // a setting of the context here, of the process in C
	got = slices.DeleteFunc(got, func(name string) bool { return name == own })
	want := slices.DeleteFunc(order, func(name string) bool { return !slices.Contains(got, name) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order, for cOrder of package config (-C +ours):\n%s", diff)
	}
}
