//go:build linux

package ib

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucs"
)

// A port of InfiniBand has as many LIDs as the low bits of one that its LMC leaves open can
// tell apart, and a path to it takes one of them, at both ends. Which of these are used
// UCX_IB_LID_PATH_BITS says: by default that with no bit set alone.

// pathRange is a range of them, upwards or downwards.
type pathRange struct{ first, last uint16 }

// ParseConfig implements config.Value.
func (r *pathRange) ParseConfig(s string) error {
	a, b, ranged := strings.Cut(s, "-")
	if !ranged {
		b = a
	}
	for _, end := range []struct {
		text string
		to   *uint16
	}{{a, &r.first}, {b, &r.last}} {
		n, err := strconv.ParseUint(end.text, 10, 16)
		if err != nil {
			return errors.New("neither a number nor a range of numbers")
		}
		*end.to = uint16(n)
	}
	return nil
}

// String implements config.Value.
func (r pathRange) String() string {
	if r.first == r.last {
		return strconv.Itoa(int(r.first))
	}
	return fmt.Sprintf("%d-%d", r.first, r.last)
}

// ConfigSyntax implements config.Syntaxer.
func (pathRange) ConfigSyntax() string { return "numbers range: <number>-<number>" }

// pathBits are those of ranges that a port with an LMC has room for, in their order
// (uct_ib_iface_init_lmc).
func pathBits(ranges []pathRange, lmc uint8) (list []uint8, err error) {
	most := 1 << min(lmc, maxLMC)
	for _, r := range ranges {
		step := 1
		if r.last < r.first {
			step = -1
		}
		for n := int(r.first); ; n += step {
			if n < most && len(list) < maxPaths {
				list = append(list, uint8(n))
			}
			if n == int(r.last) {
				break
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("ib: UCX_IB_LID_PATH_BITS is %v, none of which the port has, it has those below %d: %w", ranges, most, ucs.ErrInvalidParam)
	}
	return list, nil
}

// maxLMC is the largest there is: a field of 3 bits.
const maxLMC = 7
