//go:build linux

package cma

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// FindProcess implements uct.ProcessIface.
func (i *iface) FindProcess(p uct.ReachableParams, may func(uct.Process) bool) (uct.Process, error) {
	proc, err := i.peer(p.DeviceAddr, p.IfaceAddr)
	if err != nil {
		return 0, err
	}
	if may != nil && !may(proc.ID()) {
		return 0, fmt.Errorf("cma: the address belongs to process %d, not to the requesting process: %w: %w", proc.PID, ucs.ErrRejected, ucs.ErrUnreachable)
	}
	return proc.ID(), nil
}
