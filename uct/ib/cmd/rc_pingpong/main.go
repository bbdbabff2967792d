//go:build linux

// Command rc_pingpong sends a message back and forth over reliable connections.
// It talks to ibv_rc_pingpong of rdma-core, in either role; see package pingpong.
package main

import "github.com/ucx-go/ucx/uct/ib/cmd/internal/pingpong"

func main() { pingpong.RC.Main() }
