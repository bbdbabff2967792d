//go:build linux

// Command ud_pingpong sends a message back and forth over datagrams.
// It talks to ibv_ud_pingpong of rdma-core, in either role; see package pingpong.
package main

import "github.com/ucx-go/ucx/uct/ib/cmd/internal/pingpong"

func main() { pingpong.UD.Main() }
