//go:build linux

package ib

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// RoCEVersion is the protocol of an Ethernet port, with the numbers on the wire
// (uct_ib_roce_version_t).
type RoCEVersion uint8

// Versions of RoCE.
const (
	RoCEv1   RoCEVersion = 0
	RoCEv1_5 RoCEVersion = 1
	RoCEv2   RoCEVersion = 2
	RoCEAny  RoCEVersion = 3 // version not specified
)

// String returns the name of the version.
func (v RoCEVersion) String() string {
	switch v {
	case RoCEv1:
		return "RoCE v1"
	case RoCEv1_5:
		return "RoCE v1.5"
	case RoCEv2:
		return "RoCE v2"
	}
	return "RoCE"
}

// Address is the address of a port, which C UCX calls a device address (uct_ib_address_t,
// src/uct/ib/base/ib_iface.h). The zero value of an optional field means that the address
// has none.
//
//	RoCE        flags | gid 16 | [mtu] | [gid index] | [pkey 2]
//	InfiniBand  flags | lid 2 | [interface id 8] | [subnet 2 or 8] | [mtu] | [gid index] | [pkey 2]
//
// Numbers are little-endian; GIDs and parts of them have the byte order of GID tables.
type Address struct {
	Ethernet bool
	GID      verbs.GID   // of InfiniBand: the subnet prefix and, if Global is set, the interface id
	Version  RoCEVersion // of an Ethernet port
	IPv6     bool        // of an Ethernet port: GID is not an IPv4 address

	LID    verbs.LID // of an InfiniBand port
	Global bool      // of an InfiniBand port: it can be reached by the GID, also from other subnets

	MTU      verbs.MTU  // of a path to the port; 0 means 4096 bytes
	HasIndex bool       // GIDIndex is present
	GIDIndex uint8      // in the GID table of the process that uses the address
	PKey     verbs.PKey // 0 stands for the default partition, 0xffff
}

// MaxAddressLen is the length of the longest Address, in bytes.
const MaxAddressLen = 1 + 2 + 8 + 8 + 1 + 1 + 2

// Flags of an address (UCT_IB_ADDRESS_FLAG_*).
const (
	flagGIDIndex = 1 << 0
	flagMTU      = 1 << 1
	flagPKey     = 1 << 2
	flagEthernet = 1 << 3
	flagIPv6     = 1 << 4 // Ethernet; the flags below are for InfiniBand
	flagSubnet16 = 1 << 4
	flagSubnet64 = 1 << 5
	flagIfID     = 1 << 6

	versionShift = 5 // position of the RoCE version in the flags, for Ethernet
)

// defaultPKey is the key of the partition that every port is in.
const defaultPKey verbs.PKey = 0xffff

// Prefixes of InfiniBand GIDs that a packed address omits: the link-local prefix, and the first
// 6 bytes of a site-local prefix.
var (
	linkPrefix = [8]byte{0xfe, 0x80}
	sitePrefix = [6]byte{0xfe, 0xc0}
)

// Append appends the packed address.
func (a *Address) Append(b []byte) []byte {
	at := len(b)
	b = append(b, 0)
	var flags byte
	if a.Ethernet {
		flags = flagEthernet | byte(a.Version)<<versionShift
		if a.IPv6 {
			flags |= flagIPv6
		}
		b = append(b, a.GID[:]...)
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(a.LID))
		if a.Global {
			flags |= flagIfID
			b = append(b, a.GID[8:]...)
		}
		switch {
		case [8]byte(a.GID[:8]) == linkPrefix:
		case [6]byte(a.GID[:6]) == sitePrefix:
			flags |= flagSubnet16
			b = append(b, a.GID[6:8]...)
		default:
			flags |= flagSubnet64
			b = append(b, a.GID[:8]...)
		}
	}
	if a.MTU != 0 && a.MTU != verbs.MTU4096 {
		flags |= flagMTU
		b = append(b, byte(a.MTU))
	}
	if a.HasIndex {
		flags |= flagGIDIndex
		b = append(b, a.GIDIndex)
	}
	if a.PKey != 0 && a.PKey != defaultPKey {
		flags |= flagPKey
		b = binary.LittleEndian.AppendUint16(b, uint16(a.PKey))
	}
	b[at] = flags
	return b
}

// SamePort reports whether two addresses name the same port.
func (a *Address) SamePort(b *Address) bool {
	return a.Ethernet == b.Ethernet && a.GID == b.GID && a.LID == b.LID
}

// ParseAddress parses a packed address that must fill all of b. The bytes are untrusted: an error
// matches ucs.ErrInvalidAddr.
func ParseAddress(b []byte) (Address, error) {
	r := reader{b: b}
	var a Address
	flags := r.byte()
	if flags&flagEthernet != 0 {
		a.Ethernet = true
		a.IPv6 = flags&flagIPv6 != 0
		a.Version = RoCEVersion(flags >> versionShift)
		copy(a.GID[:], r.bytes(16))
		if a.Version > RoCEAny {
			return a, errAddress(b, "with an unknown version of RoCE")
		}
	} else {
		a.LID = verbs.LID(r.uint16())
		copy(a.GID[:], linkPrefix[:])
		if flags&flagIfID != 0 {
			a.Global = true
			copy(a.GID[8:], r.bytes(8))
		}
		switch flags & (flagSubnet16 | flagSubnet64) {
		case flagSubnet16:
			clear(a.GID[:8])
			copy(a.GID[:6], sitePrefix[:])
			copy(a.GID[6:8], r.bytes(2))
		case flagSubnet64:
			copy(a.GID[:8], r.bytes(8))
		case flagSubnet16 | flagSubnet64:
			return a, errAddress(b, "with two subnets")
		}
		if flags&(1<<7) != 0 {
			return a, errAddress(b, "with an unknown flag")
		}
	}
	if flags&flagMTU != 0 {
		if a.MTU = verbs.MTU(r.byte()); !r.short && a.MTU.Bytes() == 0 {
			return a, errAddress(b, "with an unknown MTU")
		}
	}
	if flags&flagGIDIndex != 0 {
		a.HasIndex, a.GIDIndex = true, r.byte()
	}
	if flags&flagPKey != 0 {
		if a.PKey = verbs.PKey(r.uint16()); a.PKey == 0 && !r.short {
			return a, errAddress(b, "in no partition")
		}
	}
	switch {
	case r.short:
		return a, errAddress(b, "that is truncated")
	case len(r.b) > 0:
		return a, errAddress(b, "followed by other bytes")
	}
	return a, nil
}

// pkey returns the partition key, or defaultPKey if the address has none.
func (a *Address) pkey() verbs.PKey {
	if a.PKey == 0 {
		return defaultPKey
	}
	return a.PKey
}

// mtu returns the MTU, or 4096 bytes if the address has none.
func (a *Address) mtu() verbs.MTU {
	if a.MTU == 0 {
		return verbs.MTU4096
	}
	return a.MTU
}

// String describes the address.
func (a *Address) String() string {
	switch {
	case a.Ethernet:
		return fmt.Sprintf("%v %v", a.Version, a.GID.Addr())
	case a.Global:
		return fmt.Sprintf("LID %#x, GID %v", uint16(a.LID), a.GID)
	}
	return fmt.Sprintf("LID %#x", uint16(a.LID))
}

// reader reads bytes from the start of a message. Reads past the end return zeros and set short.
type reader struct {
	b     []byte
	short bool
}

var zeros [16]byte

func (r *reader) bytes(n int) []byte {
	if len(r.b) < n {
		r.b, r.short = nil, true
		return zeros[:n]
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte     { return r.bytes(1)[0] }
func (r *reader) uint16() uint16 { return binary.LittleEndian.Uint16(r.bytes(2)) }

//go:noinline
func errAddress(b []byte, what string) error {
	return fmt.Errorf("ib: device address %x, %s: %w", b[:min(len(b), 32)], what, ucs.ErrInvalidAddr)
}
