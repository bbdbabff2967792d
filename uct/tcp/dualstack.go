//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Devices with addresses of both families. In C UCX a device has one address family, and
// workers reach each other only if their families are the same. In this library a device that
// has addresses of both families in UCX_TCP_AF_PRIO also connects to peers that the first
// family does not reach. Those connections are made from a separate iface at the second
// address (multihomed.go), and their requests name that iface's listener.
//
// Worker addresses contain the second address only with UCX_TCP_AF_DUAL. A C UCX peer that has
// the first family skips the second address, but regards it as another device. So a C UCX peer
// that has a device of the second family alone beside other devices opens one more lane to the
// second address, which it would not do toward another C UCX peer. The second address takes 41
// bytes of each worker address.

var _ uct.DualStack = (*iface)(nil)

// SecondReachable implements uct.DualStack.
func (i *iface) SecondReachable(p uct.ReachableParams) error {
	if !i.second.IsValid() {
		return errNoSecond
	}
	d := localDeviceAddr(i.second)
	return i.reachableFrom(&d, p)
}

// errNoSecond is preallocated, because lane selection calls SecondReachable often.
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
