//go:build linux

// Command srq_pingpong sends a message back and forth over reliable connections that share a
// receive queue. It talks to ibv_srq_pingpong of rdma-core, in either role; see package pingpong.
package main

import "github.com/ucx-go/ucx/uct/ib/cmd/internal/pingpong"

func main() { pingpong.SRQ.Main() }
