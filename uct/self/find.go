package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var _ uct.ProcessFinder = (*iface)(nil)

// FindProcess implements uct.ProcessFinder: it is this process.
func (i *iface) FindProcess(p uct.ReachableParams, may func(uct.Process) bool) (uct.Process, error) {
	if err := i.Reachable(p); err != nil {
		return 0, err
	}
	own, err := thisProcess()
	if err != nil {
		return 0, err
	}
	if may != nil && !may(own) {
		return 0, fmt.Errorf("self: this process is not the requesting one: %w: %w", ucs.ErrRejected, ucs.ErrUnreachable)
	}
	return own, nil
}
