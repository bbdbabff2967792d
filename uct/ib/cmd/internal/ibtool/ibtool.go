//go:build linux

package ibtool

import (
	"fmt"
	"strconv"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Open opens the device with this name, or the first device if the name is empty.
func Open(name string) (*verbs.Context, error) { return verbs.OpenDevice("", name) }

// Port is a port and the GID that is used there.
type Port struct {
	verbs.PortAttr
	Num int
	GID verbs.GIDEntry // zero: peers are addressed by their LID
}

// NoIndex stands for a GID index that was not given.
const NoIndex = -1

// FindPort queries a port and the GID at an index of its table. With NoIndex it uses no GID on
// InfiniBand, and the port's DefaultGID on RoCE, which has no other addresses.
func FindPort(c *verbs.Context, num, index int) (Port, error) {
	p := Port{Num: num}
	var err error
	if p.PortAttr, err = c.QueryPort(num); err != nil {
		return Port{}, err
	}
	switch {
	case index >= 0:
		p.GID, err = c.QueryGID(num, index)
	case p.LinkLayer == verbs.LinkEthernet:
		p.GID, err = c.DefaultGID(num)
	case p.LID == 0:
		err = fmt.Errorf("%s: port %d is %v and has no LID yet: %w", c.Name(), num, p.State, ucs.ErrUnreachable)
	}
	return p, err
}

// To returns the address vector from the port to a peer: by its GID if the port has one too, else
// by its LID. It fails on RoCE if the peer has no GID.
func (p Port) To(gid verbs.GID, lid verbs.LID, sl uint8) (verbs.AHAttr, error) {
	a := verbs.AHAttr{Port: uint8(p.Num)}
	switch {
	case !gid.IsZero() && !p.GID.GID.IsZero():
		a = p.GID.To(gid)
	case p.LinkLayer == verbs.LinkEthernet:
		return a, fmt.Errorf("the peer sent no GID, which RoCE requires: %w", ucs.ErrUnreachable)
	}
	a.DLID, a.SL = lid, sl
	return a, nil
}

// Number parses the value of a flag as C's strtol(value, 0) does: decimal, hexadecimal or octal. It
// fails if the number is not in the range from least to most.
func Number(flag, value string, least, most int) (int, error) {
	n, err := strconv.ParseInt(value, 0, 64)
	if err != nil || n < int64(least) || n > int64(most) {
		return 0, fmt.Errorf("%s: %q is not a number from %d to %d", flag, value, least, most)
	}
	return int(n), nil
}
