//go:build linux

package wire

// An interface is addressed by the number of its queue pair, an endpoint by that number and the
// endpoint's id: struct uct_ud_iface_addr and uct_ud_ep_addr of src/uct/ib/ud/base/ud_def.h.
const (
	IfaceAddrLen = 3
	EPAddrLen    = 6
)

// AppendIfaceAddr appends the address of an interface.
func AppendIfaceAddr(b []byte, qpn uint32) []byte { return appendU24(b, qpn) }

// AppendEPAddr appends the address of an endpoint.
func AppendEPAddr(b []byte, qpn, ep uint32) []byte { return appendU24(appendU24(b, qpn), ep) }

// ParseIfaceAddr reads the address of an interface.
func ParseIfaceAddr(b []byte) (qpn uint32, err error) {
	if len(b) != IfaceAddrLen {
		return 0, ErrAddress
	}
	if qpn = u24(b); !validQPN(qpn) {
		return 0, ErrQPN
	}
	return qpn, nil
}

// ParseEPAddr reads the address of an endpoint.
func ParseEPAddr(b []byte) (qpn, ep uint32, err error) {
	if len(b) != EPAddrLen {
		return 0, 0, ErrAddress
	}
	if qpn, err = ParseIfaceAddr(b[:IfaceAddrLen]); err != nil {
		return 0, 0, err
	}
	if ep = u24(b[IfaceAddrLen:]); ep == NullID {
		return 0, 0, ErrID
	}
	return qpn, ep, nil
}

// validQPN reports whether a queue pair made by an application can have this number: 0 and 1 are
// reserved for subnet management, the largest number for multicast.
func validQPN(n uint32) bool { return n > 1 && n < 1<<24-1 }

func u24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

func appendU24(b []byte, v uint32) []byte { return append(b, byte(v), byte(v>>8), byte(v>>16)) }
