//go:build !linux

package sys

import "os"

// ReadFile is os.ReadFile.
func ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

// WithRefusal returns err.
func WithRefusal(_ string, err error) error { return err }

// WithLimit returns err.
func WithLimit(err error) error { return err }

// Yield does nothing: the callers that need it have called Go's scheduler before.
func Yield() {}
