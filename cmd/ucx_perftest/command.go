//go:build linux

package main

import "github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"

// isAtomic reports whether a test consists of atomic operations, which have no layout.
func isAtomic(c perfoob.Command) bool {
	switch c {
	case perfoob.CmdAdd, perfoob.CmdFAdd, perfoob.CmdSwap, perfoob.CmdCSwap:
		return true
	}
	return false
}

// isOneSided reports whether a command accesses the other side's memory.
func isOneSided(c perfoob.Command) bool {
	return c == perfoob.CmdPut || c == perfoob.CmdGet || isAtomic(c)
}

// isTagged reports whether a test consists of tagged messages.
func isTagged(t *perfoob.Test) bool {
	return t.Command == perfoob.CmdTag || t.Command == perfoob.CmdTagSync
}
