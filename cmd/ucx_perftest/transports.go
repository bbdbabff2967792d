//go:build linux

package main

// The transports that UCT tests can name. Those of UCP come with it.
import (
	_ "github.com/ucx-go/ucx/uct/shm"
	_ "github.com/ucx-go/ucx/uct/shm/cma"
)
