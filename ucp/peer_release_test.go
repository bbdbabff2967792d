package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestPeerRelease checks that the setting has priority over the program's parameter, and that
// unknown releases are refused.
func TestPeerRelease(t *testing.T) {
	for _, tc := range []struct {
		setting     string
		param, want PeerRelease
	}{
		{"auto", PeerReleaseAny, PeerReleaseAny},
		{"auto", PeerRelease113, PeerRelease113},
		{"1.13", PeerReleaseAny, PeerRelease113},
		{"1.22", PeerRelease113, PeerRelease122},
	} {
		t.Setenv("UCX_TLS", "self")
		t.Setenv("UCX_PEER_RELEASE", tc.setting)
		c, err := NewContext(ContextParams{Features: FeatureTag, PeerRelease: tc.param}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.peerRelease(); got != tc.want {
			t.Errorf("setting %s, parameter %d: %d, want %d", tc.setting, tc.param, got, tc.want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("UCX_PEER_RELEASE", "1.12")
	if _, err := NewContext(ContextParams{Features: FeatureTag}, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("release 1.12: %v", err)
	}
	if _, err := NewContext(ContextParams{Features: FeatureTag, PeerRelease: PeerRelease122 + 1}, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("release out of range: %v", err)
	}
}
