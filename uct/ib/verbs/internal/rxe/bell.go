//go:build linux

package rxe

import (
	"encoding/binary"
	"syscall"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// bell tells the kernel of new sends: POST_SEND with none in it, by write(2), which
// costs less than ioctl(2). The command stays where it is, as the kernel writes an
// answer to the address in it.
type bell struct {
	file   uverbs.File
	cmd    []byte // what write(2) takes
	handle uint32
	slow   bool // write(2) is refused; of who posts sends
}

// wqeSize is not less than struct ib_uverbs_send_wr, which some kernels check.
const wqeSize = 128

func (b *bell) hang(c *context, handle uint32) error {
	cell, err := c.cells.get()
	if err != nil {
		return err
	}
	const answerAt = 48
	req := abi.PostSend{Response: addressOf(cell) + answerAt, QpHandle: handle, WqeSize: wqeSize}
	hdr := abi.CmdHdr{Command: abi.IB_USER_VERBS_CMD_POST_SEND, OutWords: 1}
	n := copy(cell, abi.Bytes(&hdr))
	n += copy(cell[n:], abi.Bytes(&req))
	binary.NativeEndian.PutUint16(cell[4:], uint16(n/4))
	b.file, b.cmd, b.handle = c.dev.File, cell[:n], handle
	return nil
}

func (b *bell) drop(c *context) {
	if b.cmd != nil {
		c.cells.put(b.cmd[:cellSize])
		b.cmd = nil
	}
}

// other is what is done where the bell did not ring: by errno, or because it is known
// that it will not.
//
//go:noinline
func (b *bell) other(c *context, e syscall.Errno) error {
	if e != syscall.EACCES && e != syscall.EPERM {
		return &uverbs.Error{Device: b.file.Name(), Call: "POST_SEND", Errno: e}
	}
	return b.ringSlowly(c)
}

// ringSlowly rings by ioctl(2). The kernel takes a write(2) only with the credentials
// that opened the device (ib_safe_file_access, include/rdma/ib.h), and Go gives each
// thread its own when it changes them; filters of system calls may refuse it too.
func (b *bell) ringSlowly(c *context) error {
	b.slow = true
	req := abi.PostSend{QpHandle: b.handle, WqeSize: wqeSize}
	return c.dev.Invoke(abi.IB_USER_VERBS_CMD_POST_SEND, abi.Bytes(&req), abi.Bytes(&abi.PostSendResp{}))
}
