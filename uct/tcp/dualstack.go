//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// In C UCX a device has one family, and workers reach each other where theirs is the same.
// Here a device that has addresses of both families in UCX_TCP_AF_PRIO also connects to peers
// that are not reached by the first one: from an interface of its own at the second address
// (multihomed.go), of which the peer is told in what it is asked.
//
// Worker addresses name the second address only with UCX_TCP_AF_DUAL. Peers of C that have the
// first family pass over it, but for them it is another device: one that happens to have a
// device of the second family alone beside others opens one more lane to it, as it would not
// to a peer of its own kind; and it takes 41 bytes of each address.

var _ uct.DualStack = (*iface)(nil)

// SecondReachable implements uct.DualStack.
func (i *iface) SecondReachable(p uct.ReachableParams) error {
	if !i.second.IsValid() {
		return errNoSecond
	}
	d := localDeviceAddr(i.second)
	return i.reachableFrom(&d, p)
}

// errNoSecond is preallocated: selections of lanes ask often.
var errNoSecond = &secondError{}

type secondError struct{}

func (*secondError) Error() string { return "tcp: the device has no address of a second family" }
func (*secondError) Unwrap() error { return ucs.ErrUnreachable }

// SecondAddress implements uct.DualStack.
func (i *iface) SecondAddress() (p uct.ReachableParams, ok bool, err error) {
	if !i.md.opts.dual || !i.second.IsValid() {
		return p, false, nil
	}
	o, err := i.at(i.second)
	if err != nil {
		return p, false, err
	}
	return uct.ReachableParams{DeviceAddr: o.devAddr, IfaceAddr: o.ifaceAddr}, true, nil
}
