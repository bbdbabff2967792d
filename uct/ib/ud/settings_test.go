//go:build linux

package ud_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestSettingsOfC checks that the settings which ucx_info -c of C UCX 1.22.0 prints for the
// transport, as far as they apply here, exist with the same names and defaults.
func TestSettingsOfC(t *testing.T) {
	var out strings.Builder
	set := new(config.Set)
	if err := set.Write(&out, "", config.PrintConfig); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"UD_VERBS_SEG_SIZE=8K", "UD_VERBS_TX_QUEUE_LEN=256", "UD_VERBS_TX_MAX_POLL=16", "UD_VERBS_TX_MIN_INLINE=64",
		"UD_VERBS_TX_MIN_SGE=5", "UD_VERBS_RX_QUEUE_LEN=4096", "UD_VERBS_RX_MAX_POLL=16", "UD_VERBS_IS_GLOBAL=n",
		"UD_VERBS_SL=auto", "UD_VERBS_TRAFFIC_CLASS=auto", "UD_VERBS_HOP_LIMIT=255", "UD_VERBS_NUM_PATHS=auto",
		"UD_VERBS_ROCE_SUBNETS=all", "UD_VERBS_ROCE_REACHABILITY_MODE=route", "UD_VERBS_ROCE_PATH_FACTOR=1",
		"UD_VERBS_PKEY=auto", "UD_VERBS_PATH_MTU=default", "UD_VERBS_LINGER_TIMEOUT=300000000.00us",
		"UD_VERBS_TIMEOUT=30000000.00us", "UD_VERBS_TIMER_TICK=10000.00us", "UD_VERBS_TIMER_BACKOFF=2.000",
		"UD_VERBS_MIN_POKE_TIME=250000.00us", "UD_VERBS_ETH_DGID_CHECK=y", "UD_VERBS_MAX_WINDOW=1025",
	} {
		if !strings.Contains(out.String(), "UCX_"+line+"\n") {
			name, _, _ := strings.Cut(line, "=")
			at := strings.Index(out.String(), "UCX_"+name+"=")
			if at < 0 {
				t.Errorf("no UCX_%s", name)
				continue
			}
			got, _, _ := strings.Cut(out.String()[at:], "\n")
			t.Errorf("%s, C has %s", got, line)
		}
	}
}

// TestBadSettings checks that invalid values are refused when an interface is opened, which leaves
// nothing behind.
func TestBadSettings(t *testing.T) {
	for _, pair := range [][2]string{
		{"UD_VERBS_MAX_WINDOW", "1"}, {"UD_MAX_WINDOW", "1026"}, {"UD_VERBS_TIMER_TICK", "0"}, {"UD_TIMER_BACKOFF", "0.9"},
		{"UD_TIMER_BACKOFF", "NaN"}, {"UD_TIMEOUT", "0"}, {"UD_TIMEOUT", "30ms"}, {"UD_SEG_SIZE", "64"},
		{"UD_RX_QUEUE_LEN", "0"}, {"IB_RX_QUEUE_LEN", "1000000"}, {"UD_TX_QUEUE_LEN", "1"}, {"IB_HOP_LIMIT", "256"},
	} {
		f := fixture(t, network(t, verbstest.Config{}))
		set := new(config.Set)
		if err := set.Modify(pair[0], pair[1]); err != nil {
			continue // the value is refused already
		}
		f.Config = set
		md, err := f.Component.OpenMD("rxe0", set)
		if err != nil {
			t.Fatal(err)
		}
		w := worker(t)
		if i, err := md.OpenIface(w, ifaceParams(), set); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s=%s: %v", pair[0], pair[1], err)
			if err == nil {
				i.Close()
			}
		}
		check(t, md.Close())
	}
}
