package main

import "github.com/ucx-go/ucx/ucp"

// A client says hello with its address, and has its endpoint made before anything else.
// Each request and its answer carry, in their tags, which client it is and which of its
// goroutines.
//
//	kind (8 bits)   client (24 bits)   goroutine (32 bits)
const (
	hello   ucp.Tag = 1 << 56
	welcome ucp.Tag = 2 << 56 // the client's number is in it
	request ucp.Tag = 3 << 56
	answer  ucp.Tag = 4 << 56

	kindMask   ucp.Tag = 0xFF << 56
	clientMask ucp.Tag = (maxClients - 1) << 32
	maxClients         = 1 << 24
)

// Limits of what a peer may send.
const (
	longestAddress = 64 << 10
	longestRequest = 4 << 10
)

func tagOf(kind ucp.Tag, client, goroutine int) ucp.Tag {
	return kind | ucp.Tag(client)<<32&clientMask | ucp.Tag(uint32(goroutine))
}

func clientOf(tag ucp.Tag) int { return int(tag & clientMask >> 32) }
