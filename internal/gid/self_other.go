//go:build !amd64 && !arm64

package gid

import (
	"bytes"
	"runtime"
	"strconv"
)

// Self returns the ID of the calling goroutine: its number in tracebacks.
func Self() ID {
	var b [64]byte
	line := bytes.TrimPrefix(b[:runtime.Stack(b[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(line, []byte{' '})
	n, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		panic("gid: a traceback begins with " + strconv.Quote(string(line)))
	}
	return ID(n)
}
