//go:build linux

package ucm

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Traced returns f itself, or Trace of f to standard error if VERBS_DEBUG=1.
func Traced(f File) File {
	if os.Getenv("VERBS_DEBUG") == "1" {
		return Trace(f, os.Stderr)
	}
	return f
}

// Trace returns a File that prints each command of f to w, one line each, except polls of an empty
// queue.
func Trace(f File, w io.Writer) File { return &tracer{File: f, w: w} }

type tracer struct {
	File
	mu sync.Mutex
	w  io.Writer // under mu
}

func (t *tracer) Command(cmd uint32, in, data []byte) syscall.Errno {
	e := t.File.Command(cmd, in, data)
	if cmd == cmabi.RDMA_USER_CM_CMD_GET_EVENT && e == syscall.EAGAIN {
		return e
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%s: %s\n", t.Name(), format(cmd, in, data, e))
	return e
}

// format describes a command and its result.
func format(cmd uint32, in, data []byte, e syscall.Errno) string {
	c := cmabi.Lookup(cmd)
	if c == nil || len(in) < int(c.In.Size()) {
		return fmt.Sprintf("command %d(%s) = %d (%v)", cmd, hex.EncodeToString(in), -int(e), e)
	}
	text := c.Name + uverbs.FormatStruct(c.In, in)
	if c.Out == nil && data != nil {
		text += " [" + hex.EncodeToString(data) + "]"
	}
	if e != 0 {
		return fmt.Sprintf("%s = %d (%v)", text, -int(e), e)
	}
	text += " = 0"
	if c.Out != nil && len(data) >= int(c.Out.Size()) {
		text += " " + uverbs.FormatStruct(c.Out, data)
	}
	return text
}
