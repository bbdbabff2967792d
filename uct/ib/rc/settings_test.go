//go:build linux

package rc

import (
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
)

// load loads the settings after changing some of them.
func load(t *testing.T, pairs ...string) *settings {
	t.Helper()
	s := new(settings)
	rigtest.Check(t, rigtest.Settings(t, pairs...).Load(transportName, s))
	return s
}

// TestSettings checks the defaults, and that of several prefixes the most specific one counts.
func TestSettings(t *testing.T) {
	s := load(t)
	if err := s.check(); err != nil {
		t.Error(err)
	}
	if r := &s.RC; r.Buffers.SegSize.Int(0) != 8256 || r.Buffers.RxQueueLen.Int(0) != 4095 || r.IB.TxQueueLen.Int(0) != 256 ||
		r.FCWindow.Int(0) != 512 || r.TxCQLen.Int(0) != 4096 || r.TxModeration.Int(0) != 64 || r.Fence != fenceAuto {
		t.Errorf("defaults: %+v", s)
	}
	names := []string{"IB_TX_QUEUE_LEN", "RC_TX_QUEUE_LEN", "RC_VERBS_TX_QUEUE_LEN"}
	for n := range names {
		var pairs []string
		for k := range n + 1 {
			pairs = append(pairs, names[k], []string{"10", "20", "30"}[k])
		}
		if s := load(t, pairs...); s.RC.IB.TxQueueLen.Int(0) != 10*(n+1) {
			t.Errorf("%v: %v", pairs, s.RC.IB.TxQueueLen)
		}
	}
	if s := load(t, "RC_FC_WND_SIZE", "7"); s.RC.FCWindow.Int(0) != 7 {
		t.Errorf("window %v", s.RC.FCWindow)
	}
	if s := load(t, "IB_SEG_SIZE", "4k"); s.RC.Buffers.SegSize.Int(0) != 4096 {
		t.Errorf("segments of %v", s.RC.Buffers.SegSize)
	}
}

func TestSettingsRefused(t *testing.T) {
	for _, pairs := range [][]string{
		{"RC_VERBS_SEG_SIZE", "1"}, {"RC_VERBS_SEG_SIZE", "1g"}, {"RC_VERBS_RX_QUEUE_LEN", "0"}, {"RC_VERBS_TX_CQ_LEN", "1"},
		{"RC_VERBS_RETRY_COUNT", "8"}, {"RC_VERBS_RNR_RETRY_COUNT", "8"}, {"RC_VERBS_MAX_RD_ATOMIC", "0"},
		{"RC_VERBS_FC_WND_SIZE", "0"}, {"RC_VERBS_FC_WND_SIZE", "32768"}, {"RC_VERBS_FC_SOFT_THRESH", "0.2"}, {"RC_VERBS_FC_SOFT_THRESH", "1"},
		{"RC_VERBS_FC_HARD_THRESH", "0"}, {"RC_VERBS_MAX_AM_HDR", "1m"}, {"RC_VERBS_TX_MAX_WR", "0"}, {"RC_VERBS_TX_NUM_GET_BYTES", "0"},
	} {
		if err := load(t, pairs...).check(); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%v: %v", pairs, err)
		}
	}
}

// TestTimes checks the codes of timeouts: those of C UCX for its defaults, and the bounds.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want uint8
	}{
		{time.Second, 18}, {0, 1}, {time.Microsecond, 1}, {30 * time.Second, 23}, {4096 << 30, 30}, {4096 << 32, 0},
	} {
		if got := ackTimeout(c.d); got != c.want {
			t.Errorf("waiting %v for an acknowledgment: %d, want %d", c.d, got, c.want)
		}
	}
	for _, c := range []struct {
		d    time.Duration
		want uint8
	}{
		{time.Millisecond, 13}, {0, 1}, {10 * time.Microsecond, 1}, {491520 * time.Microsecond, 31}, {time.Second, 0},
	} {
		if got := rnrTimer(c.d); got != c.want {
			t.Errorf("waiting %v for a buffer: %d, want %d", c.d, got, c.want)
		}
	}
}
