//go:build linux

// Command uc_pingpong sends a message back and forth over unreliable connections.
// It talks to ibv_uc_pingpong of rdma-core, in either role; see package pingpong.
package main

import "github.com/ucx-go/ucx/uct/ib/cmd/internal/pingpong"

func main() { pingpong.UC.Main() }
