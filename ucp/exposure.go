package ucp

import "github.com/ucx-go/ucx/uct"

// exposure is memory that a peer may reach.
type exposure struct {
	md  uct.MemoryDomain
	mem uct.MemHandle
}
