//go:build linux

package wire

import (
	"encoding/binary"
	"errors"
)

// The control header behind the Header of a CREQ or CREP; struct uct_ud_ctl_hdr of
// src/uct/ib/ud/base/ud_iface.h, whose inner structs C does not pack:
//
//	 0      1 CREQ, 2 CREP
//	 1..3   not used
//	 4..6   CREQ: number of the sender's queue pair    CREP: u32, the sender's endpoint
//	 7..9         its endpoint
//	10..11        padding
//	12..15        conn_sn
//	16            path index
//	17..19        padding
//	20..35  name of the sender's machine, cut
//	36..39  its process id
//
// What is not used C fills with what lay there, messages of its application among it.
// It is zero here, and not looked at.
const (
	ControlLen = 40

	typeCREQ = 1
	typeCREP = 2
)

// HostLen is how much of a machine's name is sent.
const HostLen = 16

// Origin is who sends a control packet, for the other side's diagnostics. Nothing
// depends on it, and nothing proves it.
type Origin struct {
	Host [HostLen]byte // cut, and filled up with zeros; C ends it with one
	PID  int32
}

// NewOrigin is the origin of a process.
func NewOrigin(host string, pid int) Origin {
	o := Origin{PID: int32(pid)}
	copy(o.Host[:HostLen-1], host)
	return o
}

// CREQ asks for the other end of an endpoint.
type CREQ struct {
	QPN     uint32 // of the sender, which is where the answer goes
	EP      uint32 // the sender's endpoint
	ConnSN  uint32 // how many endpoints the sender has made to this peer before
	Path    uint8  // path index
	Origin  Origin
	DevAddr []byte // the sender's device address; a slice of the packet when parsed
}

// CREP says where the other end is.
type CREP struct {
	EP     uint32 // the sender's endpoint
	Origin Origin
}

// Errors of the parsers.
var (
	ErrShort   = errors.New("ud: a packet is too short for its type")
	ErrType    = errors.New("ud: a control packet of another type")
	ErrQPN     = errors.New("ud: no datagram queue pair has this number")
	ErrID      = errors.New("ud: no endpoint has this id")
	ErrAddress = errors.New("ud: an address of the wrong length")
)

// MinCREQ and MinCREP are the lengths of the shortest ones, with their headers. The
// shortest device address is that of InfiniBand within a subnet: flags and a LID.
const (
	MinCREQ = HeaderLen + ControlLen + 3
	MinCREP = HeaderLen + ControlLen
)

// CREQLen is the length of a CREQ from an interface with a device address of n bytes.
// No longer packet is repeated to a peer that shows no life (uct_ud_ep_resend of
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

// ParseCREQ reads a connection request, header and all.
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

// ParseCREP reads a reply to a connection request, header and all.
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

// AppendKeepalive appends a put of nothing to address 0: a packet that does nothing
// and has to be acknowledged (uct_ud_ep_check of src/uct/ib/ud/base/ud_ep.c).
func AppendKeepalive(b []byte, h Header) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(h|FlagPut))
	return binary.LittleEndian.AppendUint64(b, 0)
}

// ParsePut is the data of a put, header and all, and the address that it is for.
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
