// Package netlinktest builds rtnetlink(7) messages as the kernel sends them, for tests of their
// readers.
package netlinktest

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Message builds a netlink message from a fixed part and attributes.
func Message(typ uint16, fixed []byte, attrs ...Attr) []byte {
	b := make([]byte, unix.SizeofNlMsghdr)
	b = append(b, fixed...)
	for _, a := range attrs {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		b = binary.NativeEndian.AppendUint16(b, uint16(4+len(a.Value)))
		b = binary.NativeEndian.AppendUint16(b, a.Type)
		b = append(b, a.Value...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], typ)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// Attr is an attribute of a message.
type Attr struct {
	Type  uint16
	Value []byte
}

// U32 returns an attribute with a 32-bit value.
func U32(typ uint16, v uint32) Attr {
	return Attr{typ, binary.NativeEndian.AppendUint32(nil, v)}
}

// IP returns an attribute with an address.
func IP(typ uint16, s string) Attr { return Attr{typ, netip.MustParseAddr(s).AsSlice()} }
