//go:build linux

package main

// The transports that UCT tests can name. Package ucp registers the others.
import (
	_ "github.com/ucx-go/ucx/uct/shm"
	_ "github.com/ucx-go/ucx/uct/shm/cma"
)
