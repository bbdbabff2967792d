//go:build linux

package ib_test

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestMaxPoll checks that a limit of 0 completions per round is refused, since nothing would ever
// complete, and that any larger limit is accepted.
func TestMaxPoll(t *testing.T) {
	for _, name := range []string{"IB_TX_MAX_POLL", "IB_RX_MAX_POLL"} {
		if _, err := opened(t, deviceOf(verbstest.Port{}), name, "0"); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s=0: %v", name, err)
		}
		for _, value := range []string{"1", "auto", "1000000000000", "inf"} {
			if _, err := opened(t, deviceOf(verbstest.Port{}), name, value); err != nil {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
	}
}
