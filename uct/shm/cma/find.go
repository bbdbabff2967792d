package cma

import "github.com/ucx-go/ucx/uct"

var _ uct.ProcessFinder = (*iface)(nil)

// FindProcess implements uct.ProcessFinder.
func (i *iface) FindProcess(p uct.ReachableParams) (uct.Process, error) {
	proc, err := i.peer(p.DeviceAddr, p.IfaceAddr)
	if err != nil {
		return 0, err
	}
	return proc.ID(), nil
}
