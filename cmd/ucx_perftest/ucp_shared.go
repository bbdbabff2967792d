//go:build linux

package main

import (
	"bytes"
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// All threads of a side may share one worker and one endpoint (--shared), which C's tool does not
// have. Messages are assigned to threads by tag: the first thread's tag is C's, and the others
// follow. The protocol does not mention sharing, but the other side can detect it, because each
// thread then sends the same worker address.

// checkShared checks whether a test can run on a shared worker.
func checkShared(p *params) error {
	switch {
	case !isTagged(p.Test):
		return fmt.Errorf("--shared in test %s, need a tag test: %w", p.Test.Name, ucs.ErrUnsupported)
	case p.Flags&perfoob.FlagTagWildcard != 0:
		return fmt.Errorf("--shared with any tag, -C: the tag selects the thread: %w", ucs.ErrInvalidParam)
	case p.WaitMode == perfoob.WaitSleep && !p.block:
		return fmt.Errorf("--shared with -E sleep: a sleeping thread misses progress of other threads; use -E block: %w", ucs.ErrInvalidParam)
	}
	return nil
}

// sameSharing checks that the other side's threads share a worker if and only if those of this side
// do. With one thread it cannot tell.
func sameSharing(peers []perfoob.UCPInfo, shared bool) error {
	for i := 1; i < len(peers); i++ {
		if bytes.Equal(peers[0].Address, peers[i].Address) != shared {
			return fmt.Errorf("only one of the sides has --shared: %w", ucs.ErrInvalidParam)
		}
	}
	return nil
}
