package ucp

import "github.com/ucx-go/ucx/uct"

// exposure is memory that a peer may reach.
type exposure struct {
	md       uct.MemoryDomain
	mem      uct.MemHandle
	index    uint8 // of md in the context
	keyed    bool  // for peers that have the key
	borrowed bool  // somebody else's registration
}
