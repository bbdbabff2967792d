//go:build !linux

package sys

import "os"

// ReadFile is os.ReadFile.
func ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

// WithRefusal returns the error.
func WithRefusal(_ string, err error) error { return err }

// WithLimit returns the error.
func WithLimit(err error) error { return err }

// Yield does nothing: where it matters Go's scheduler has been asked before.
func Yield() {}
