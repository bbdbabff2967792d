//go:build linux

package main

import (
	"bytes"
	"fmt"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// All threads of both sides may share one worker and one endpoint, which C's tool
// does not have. A message finds its thread by the tag: the first one's is C's,
// the others' follow. On the wire nothing is said about it, but an address that
// each thread tells alike does.

// checkShared says whether a test can be run on shared workers.
func checkShared(p *params) error {
	switch {
	case !isTagged(p.Test):
		return fmt.Errorf("--shared in test %s, need a tag test: %w", p.Test.Name, ucs.ErrUnsupported)
	case p.Flags&perfoob.FlagTagWildcard != 0:
		return fmt.Errorf("--shared with any tag, -C: messages find their thread by it: %w", ucs.ErrInvalidParam)
	case p.WaitMode == perfoob.WaitSleep && !p.block:
		return fmt.Errorf("--shared with -E sleep: who sleeps cannot see what others progress, -E block can: %w", ucs.ErrInvalidParam)
	}
	return nil
}

// sameSharing makes sure that the other side's threads share a worker if those of
// this side do. One thread does not tell.
func sameSharing(peers []perfoob.UCPInfo, shared bool) error {
	for i := 1; i < len(peers); i++ {
		if bytes.Equal(peers[0].Address, peers[i].Address) != shared {
			return fmt.Errorf("only one of the sides has --shared: %w", ucs.ErrInvalidParam)
		}
	}
	return nil
}
