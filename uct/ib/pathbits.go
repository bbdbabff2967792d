//go:build linux

package ib

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucs"
)

// An InfiniBand port has 2^LMC LIDs, which differ in their low LMC bits: the path bits. A path
// uses the same path bits on both sides. UCX_IB_LID_PATH_BITS lists the path bits to use; the
// default is 0 alone.

// pathRange is a range of path bits, ascending or descending.
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

// pathBits returns the path bits of ranges that are valid for a port with this LMC, in the order
// of ranges (uct_ib_iface_init_lmc).
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
		return nil, fmt.Errorf("ib: UCX_IB_LID_PATH_BITS is %v, none of which the port supports; it supports those below %d: %w", ranges, most, ucs.ErrInvalidParam)
	}
	return list, nil
}

// maxLMC is the largest LMC, which is a field of 3 bits.
const maxLMC = 7
