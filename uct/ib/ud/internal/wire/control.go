//go:build linux

package wire

import (
	"encoding/binary"
	"errors"
)

// The control header follows the Header of a CREQ or CREP; struct uct_ud_ctl_hdr of
// src/uct/ib/ud/base/ud_iface.h, whose inner structs C does not pack:
//
//	 0      1 CREQ, 2 CREP
//	 1..3   not used
//	 4..6   CREQ: number of the sender's queue pair    CREP: u32, the sender's endpoint
//	 7..9         the sender's endpoint
//	10..11        padding
//	12..15        conn_sn
//	16            path index
//	17..19        padding
//	20..35  host name of the sender, truncated
//	36..39  process id of the sender
//
// C leaves unused bytes uninitialized, so they may hold data of earlier messages of its application.
// This package sends zeros there and ignores them on reception.
const (
	ControlLen = 40

	typeCREQ = 1
	typeCREP = 2
)

// HostLen is the size of the host name field, in bytes.
const HostLen = 16

// Origin names the host and the process that sent a control packet, for the other side's
// diagnostics. Nothing depends on it, and it is not authenticated.
type Origin struct {
	Host [HostLen]byte // truncated, and padded with zeros; C terminates it with a zero
	PID  int32
}

// NewOrigin returns the Origin of a process. It truncates host to HostLen-1 bytes.
func NewOrigin(host string, pid int) Origin {
	o := Origin{PID: int32(pid)}
	copy(o.Host[:HostLen-1], host)
	return o
}

// CREQ is a connection request, which asks the peer to make its endpoint of the connection.
type CREQ struct {
	QPN     uint32 // the sender's queue pair, to which the CREP goes
	EP      uint32 // the sender's endpoint
	ConnSN  uint32 // number of endpoints that the sender has made to this peer before
	Path    uint8  // path index
	Origin  Origin
	DevAddr []byte // the sender's device address; a slice of the packet when parsed
}

// CREP is the reply to a CREQ; it contains the id of the endpoint that the CREQ asked for.
type CREP struct {
	EP     uint32 // the sender's endpoint
	Origin Origin
}

// Errors of the parsers.
var (
	ErrShort   = errors.New("ud: a packet is too short for its type")
	ErrType    = errors.New("ud: a control packet of an unknown type")
	ErrQPN     = errors.New("ud: no datagram queue pair has this number")
	ErrID      = errors.New("ud: no endpoint has this id")
	ErrAddress = errors.New("ud: an address of the wrong length")
)

// MinCREQ and MinCREP are the lengths of the shortest CREQ and CREP, including the Header. The
// shortest device address is that of InfiniBand within a subnet: flags and a LID.
const (
	MinCREQ = HeaderLen + ControlLen + 3
	MinCREP = HeaderLen + ControlLen
)

// CREQLen returns the length of a CREQ from an interface with a device address of n bytes. Longer
// packets are not retransmitted to a peer that does not answer (uct_ud_ep_resend of
// src/uct/ib/ud/base/ud_ep.c).
func CREQLen(n int) int { return HeaderLen + ControlLen + n }

// AppendCREQ appends a connection request.
func AppendCREQ(b []byte, h Header, c *CREQ) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(h))
	b = append(b, typeCREQ, 0, 0, 0)
	b = appendU24(b, c.QPN)
	b = appendU24(b, c.EP)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, c.ConnSN)
	b = append(b, c.Path, 0, 0, 0)
	b = appendOrigin(b, &c.Origin)
	return append(b, c.DevAddr...)
}

// AppendCREP appends a reply to a connection request.
func AppendCREP(b []byte, h Header, c *CREP) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(h))
	b = append(b, typeCREP, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, c.EP)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	return appendOrigin(b, &c.Origin)
}

// ParseCREQ parses a connection request; b begins with the Header.
func ParseCREQ(b []byte) (c CREQ, err error) {
	if len(b) < MinCREQ {
		return c, ErrShort
	}
	b = b[HeaderLen:]
	if b[0] != typeCREQ {
		return c, ErrType
	}
	c = CREQ{
		QPN:     u24(b[4:]),
		EP:      u24(b[7:]),
		ConnSN:  binary.LittleEndian.Uint32(b[12:]),
		Path:    b[16],
		Origin:  origin(b),
		DevAddr: b[ControlLen:],
	}
	switch {
	case !validQPN(c.QPN):
		return c, ErrQPN
	case c.EP == NullID:
		return c, ErrID
	}
	return c, nil
}

// ParseCREP parses a reply to a connection request; b begins with the Header.
func ParseCREP(b []byte) (c CREP, err error) {
	if len(b) < MinCREP {
		return c, ErrShort
	}
	b = b[HeaderLen:]
	if b[0] != typeCREP {
		return c, ErrType
	}
	c = CREP{EP: binary.LittleEndian.Uint32(b[4:]), Origin: origin(b)}
	if c.EP >= NullID {
		return c, ErrID
	}
	return c, nil
}

// putLen is the length of a put without data.
const putLen = HeaderLen + 8

// AppendKeepalive appends a put without data to address 0: a packet that has no effect and has to
// be acknowledged (uct_ud_ep_check of src/uct/ib/ud/base/ud_ep.c).
func AppendKeepalive(b []byte, h Header) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(h|FlagPut))
	return binary.LittleEndian.AppendUint64(b, 0)
}

// ParsePut returns the remote address and the data of a put; b begins with the Header, and data is
// a slice of b.
func ParsePut(b []byte) (address uint64, data []byte, err error) {
	if len(b) < putLen {
		return 0, nil, ErrShort
	}
	return binary.LittleEndian.Uint64(b[HeaderLen:]), b[putLen:], nil
}

func appendOrigin(b []byte, o *Origin) []byte {
	b = append(b, o.Host[:]...)
	return binary.LittleEndian.AppendUint32(b, uint32(o.PID))
}

func origin(ctl []byte) Origin {
	return Origin{
		Host: [HostLen]byte(ctl[20:36]),
		PID:  int32(binary.LittleEndian.Uint32(ctl[36:])),
	}
}
