package ucp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// refuse stands in for the lane of a closed endpoint, so that no path has to
// look for one.
type refuse struct {
	uct.NoAM
	uct.NoRMA
	uct.NoAtomic
}

var _ uct.Endpoint = refuse{}

func (refuse) Flush(uct.FlushFlags, *uct.Completion) error { return ucs.ErrNotConnected }
func (refuse) Fence() error                                { return ucs.ErrNotConnected }
func (refuse) PendingAdd(*uct.Pending) error               { return ucs.ErrNotConnected }
func (refuse) PendingPurge(func(*uct.Pending))             {}
func (refuse) Close()                                      {}
