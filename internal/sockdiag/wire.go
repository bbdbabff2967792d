//go:build linux

package sockdiag

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Lengths of the kernel's structs (linux/inet_diag.h).
const (
	sockIDLen  = 48                                    // struct inet_diag_sockid
	requestLen = unix.SizeofNlMsghdr + 8 + sockIDLen   // struct inet_diag_req_v2
	fixedLen   = 4 + sockIDLen + 20                    // struct inet_diag_msg
	errorLen   = 4 + unix.SizeofNlMsghdr               // struct nlmsgerr
	maxAnswer  = unix.SizeofNlMsghdr + fixedLen + 1024 // unrequested attributes may follow
)

// sequence is the number of every request: a socket has at most one pending.
const sequence = 1

// States of a socket (include/net/tcp_states.h).
const (
	stateSynRecv  = 3
	stateTimeWait = 6
	stateClose    = 7
	stateListen   = 10
	stateNewSyn   = 12
)

// message is the kernel's answer.
type message struct {
	state         uint8
	local, remote netip.AddrPort
	uid, inode    uint32
}

// connected reports whether the socket is one end of a connection that a process may still hold.
func (m *message) connected() bool {
	switch m.state {
	case stateSynRecv, stateTimeWait, stateClose, stateListen, stateNewSyn:
		return false
	}
	return m.state < stateNewSyn
}

// appendRequest appends a request for one socket. dev is 0 for any device; a socket with link-local
// addresses is found only with the index of its link.
func appendRequest(b []byte, local, remote netip.AddrPort, dev uint32) []byte {
	ne := binary.NativeEndian
	b = ne.AppendUint32(b, requestLen)
	b = ne.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = ne.AppendUint16(b, unix.NLM_F_REQUEST)
	b = ne.AppendUint32(b, sequence)
	b = ne.AppendUint32(b, 0) // to the kernel
	family := uint8(unix.AF_INET)
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = ne.AppendUint32(b, ^uint32(0)) // in any state
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, a := range []netip.Addr{local.Addr(), remote.Addr()} {
		var field [16]byte
		copy(field[:], a.AsSlice())
		b = append(b, field[:]...)
	}
	b = ne.AppendUint32(b, dev)
	return ne.AppendUint64(b, ^uint64(0)) // INET_DIAG_NOCOOKIE
}

// parse reads an answer: one message, or the kernel's error. Malformed answers give unix.EPROTO.
func parse(b []byte) (*message, error) {
	ne := binary.NativeEndian
	if len(b) < unix.SizeofNlMsghdr {
		return nil, unix.EPROTO
	}
	n, typ := ne.Uint32(b), ne.Uint16(b[4:])
	if n < unix.SizeofNlMsghdr || uint64(n) > uint64(len(b)) || ne.Uint32(b[8:]) != sequence {
		return nil, unix.EPROTO
	}
	b = b[unix.SizeofNlMsghdr:n]
	switch {
	case typ == unix.NLMSG_ERROR && len(b) >= 4:
		if code := -int64(int32(ne.Uint32(b))); code > 0 && code < 4096 {
			return nil, unix.Errno(code)
		}
		return nil, unix.EPROTO
	case typ != unix.SOCK_DIAG_BY_FAMILY || len(b) < fixedLen:
		return nil, unix.EPROTO
	}
	size := 4
	switch b[0] {
	case unix.AF_INET:
	case unix.AF_INET6:
		size = 16
	default:
		return nil, unix.EPROTO
	}
	id := b[4:]
	end := func(port, addr []byte) netip.AddrPort {
		a, _ := netip.AddrFromSlice(addr[:size])
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
	}
	rest := b[4+sockIDLen:]
	return &message{
		state:  b[1],
		local:  end(id, id[4:]),
		remote: end(id[2:], id[20:]),
		uid:    ne.Uint32(rest[12:]),
		inode:  ne.Uint32(rest[16:]),
	}, nil
}
