//go:build linux

package rxe

import (
	"encoding/binary"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// doorbell is the doorbell of a queue pair: an empty command POST_SEND, which makes the kernel process
// new sends. It is written with write(2), which costs less than ioctl(2). The command is in memory
// that does not move, because it contains the address to which the kernel writes a response.
type doorbell struct {
	file     uverbs.File
	cmd      []byte // the command for write(2)
	handle   uint32
	useIoctl bool // write(2) was refused, ioctl(2) is used; owned by the goroutine that posts sends
}

// wqeSize is at least the size of struct ib_uverbs_send_wr, as some kernels require.
const wqeSize = 128

// prepare prepares the command for the queue pair with the given handle.
func (b *doorbell) prepare(c *context, handle uint32) error {
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

// drop frees the memory of the command.
func (b *doorbell) drop(c *context) {
	if b.cmd != nil {
		c.cells.put(b.cmd[:cellSize])
		b.cmd = nil
	}
}

// ringFailed is called when write(2) did not ring the doorbell. It uses ioctl(2) if write(2) was
// refused, else it returns an error. e is the errno of write(2), or EPERM if write(2) was not tried
// because it was refused before.
//
//go:noinline
func (b *doorbell) ringFailed(c *context, e syscall.Errno) error {
	if e != syscall.EACCES && e != syscall.EPERM {
		return &uverbs.Error{Device: b.file.Name(), Call: "POST_SEND", Errno: e}
	}
	return b.ringSlowly(c)
}

// ringSlowly rings the doorbell with ioctl(2), as do all later calls of Ring. The kernel accepts
// write(2) only with the credentials that opened the device (ib_safe_file_access,
// include/rdma/ib.h). When a Go program changes its credentials, each thread gets separate ones.
// Filters of system calls may also refuse write(2).
func (b *doorbell) ringSlowly(c *context) error {
	b.useIoctl = true
	req := abi.PostSend{QpHandle: b.handle, WqeSize: wqeSize}
	return c.dev.Invoke(abi.IB_USER_VERBS_CMD_POST_SEND, abi.Bytes(&req), abi.Bytes(&abi.PostSendResp{}))
}
