package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// FindProcess implements uct.ProcessIface, with the defaults of uct.BasicProcessIface. The peer is
// this process, which is known before anything is opened, so FindProcess calls the function may
// only once.
func (i *iface) FindProcess(p uct.ReachableParams, may func(uct.Process) bool) (uct.Process, error) {
	if err := i.Reachable(p); err != nil {
		return 0, err
	}
	own, err := kit.ThisProcess()
	if err != nil {
		return 0, err
	}
	if may != nil && !may(own) {
		return 0, fmt.Errorf("self: the address belongs to this process, not to the requesting process: %w: %w", ucs.ErrRejected, ucs.ErrUnreachable)
	}
	return own, nil
}
