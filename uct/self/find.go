package self

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

var _ uct.ProcessFinder = (*iface)(nil)

// FindProcess implements uct.ProcessFinder: it is this process.
func (i *iface) FindProcess(p uct.ReachableParams) (uct.Process, error) {
	if err := i.Reachable(p); err != nil {
		return 0, err
	}
	own, err := host.Self()
	if err != nil {
		return 0, err
	}
	return own.ID(), nil
}
