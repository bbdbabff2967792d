package ucp

// The transports that are part of every program that uses ucp. This file is the
// only place in the package that knows their names.
import (
	_ "github.com/ucx-go/ucx/uct/self"
	_ "github.com/ucx-go/ucx/uct/shm"
	_ "github.com/ucx-go/ucx/uct/shm/cma"
	_ "github.com/ucx-go/ucx/uct/tcp"
)
