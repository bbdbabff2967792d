package ucp

import (
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// PeerRelease is a range of C UCX releases that peers may be of. Go and C peers of every
// release communicate whatever the range. It decides only where no value suits all
// releases: the default length of shared-memory rings, and, where lanes are connected
// pairwise, whether devices that are much slower than others get lanes.
type PeerRelease uint8

// Ranges of releases.
const (
	PeerReleaseAny PeerRelease = iota // as 1.16 and later where a choice must be made
	PeerRelease113                    // 1.13 to 1.15
	PeerRelease122                    // 1.16 and later
)

// The ranges are those of transports.
var _ = [1]struct{}{}[PeerRelease122-PeerRelease(uct.PeerRelease122)]

// peerReleases names the values of the setting, by PeerRelease.
var peerReleases = []string{PeerReleaseAny: "auto", PeerRelease113: "1.13", PeerRelease122: "1.22"}

// peerRelease is a PeerRelease as a setting.
type peerRelease PeerRelease

// ParseConfig implements config.Value.
func (r *peerRelease) ParseConfig(s string) error {
	n, err := config.ParseEnum(s, peerReleases)
	*r = peerRelease(n)
	return err
}

// String implements config.Value.
func (r peerRelease) String() string { return peerReleases[r] }

// ConfigSyntax implements config.Syntaxer.
func (peerRelease) ConfigSyntax() string { return config.EnumSyntax(peerReleases) }

// peerRelease is that of the settings if they have one, or the program's.
func (c *Context) peerRelease() PeerRelease {
	if r := PeerRelease(c.settings.PeerRelease); r != PeerReleaseAny {
		return r
	}
	return c.params.PeerRelease
}
