package netlink

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// EachMessage calls fn for the messages of one type in a netlink dump. It skips messages shorter
// than their fixed part.
func EachMessage(dump []byte, typ uint16, fixed int, fn func(*syscall.NetlinkMessage)) error {
	msgs, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return fmt.Errorf("netlink: %w: %w", err, ucs.ErrIO)
	}
	for i := range msgs {
		if msgs[i].Header.Type == typ && len(msgs[i].Data) >= fixed {
			fn(&msgs[i])
		}
	}
	return nil
}

// EachAttr calls attr for each attribute in a list. It stops at a malformed attribute.
func EachAttr(b []byte, attr func(typ uint16, value []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return
		}
		attr(binary.NativeEndian.Uint16(b[2:])&nlaTypeMask, b[unix.SizeofRtAttr:n])
		b = b[min((n+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):]
	}
}

// nlaTypeMask removes the flags from an attribute's type (NLA_TYPE_MASK in linux/netlink.h).
const nlaTypeMask = 1<<14 - 1
