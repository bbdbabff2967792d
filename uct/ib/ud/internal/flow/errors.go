//go:build linux

package flow

import "errors"

// Errors of endpoints.
var (
	ErrTimeout = errors.New("ud: the peer does not answer")
	ErrReset   = errors.New("ud: the peer has started anew")
	ErrClosed  = errors.New("ud: the interface is closed")

	ErrFull  = errors.New("ud: the interface has as many endpoints as it can")
	ErrState = errors.New("ud: the endpoint cannot be connected twice")
)
