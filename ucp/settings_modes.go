package ucp

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// addressVersion is the value of UCX_ADDRESS_VERSION.
type addressVersion proto.AddressVersion

var addressVersionNames = []string{"v1", "v2"}

// ParseConfig implements config.Value.
func (v *addressVersion) ParseConfig(s string) error { return parseMode(v, s, addressVersionNames) }

// String implements config.Value.
func (v addressVersion) String() string { return proto.AddressVersion(v).String() }

// ConfigSyntax describes the values for error messages and listings.
func (addressVersion) ConfigSyntax() string { return config.EnumSyntax(addressVersionNames) }

// fenceMode is the value of UCX_FENCE_MODE.
type fenceMode uint8

// The fences of C's modes weak, auto and ep_based are one here, which looks at the
// endpoint's connections each time.
const (
	fenceWeak fenceMode = iota
	fenceStrong
	fenceAuto
	fenceEndpoints
)

var fenceModeNames = []string{"weak", "strong", "auto", "ep_based"}

// ParseConfig implements config.Value.
func (v *fenceMode) ParseConfig(s string) error { return parseMode(v, s, fenceModeNames) }

// String implements config.Value.
func (v fenceMode) String() string { return fenceModeNames[v] }

// ConfigSyntax describes the values for error messages and listings.
func (fenceMode) ConfigSyntax() string { return config.EnumSyntax(fenceModeNames) }

// atomicMode is the value of UCX_ATOMIC_MODE.
type atomicMode uint8

const (
	atomicCPU atomicMode = iota
	atomicDevice
	atomicGuess
)

var atomicModeNames = []string{"cpu", "device", "guess"}

// ParseConfig implements config.Value.
func (v *atomicMode) ParseConfig(s string) error { return parseMode(v, s, atomicModeNames) }

// String implements config.Value.
func (v atomicMode) String() string { return atomicModeNames[v] }

// ConfigSyntax describes the values for error messages and listings.
func (atomicMode) ConfigSyntax() string { return config.EnumSyntax(atomicModeNames) }

// parseMode sets v to the place of s among names.
func parseMode[T ~uint8](v *T, s string, names []string) error {
	k, err := config.ParseEnum(strings.TrimSpace(s), names)
	if err != nil {
		return fmt.Errorf("%q is not one of %s: %w", s, strings.Join(names, ", "), ucs.ErrInvalidParam)
	}
	*v = T(k)
	return nil
}
