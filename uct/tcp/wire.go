//go:build linux

package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// The byte stream (src/uct/tcp/tcp.h). Integers are little-endian; C UCX uses host order and
// does not negotiate it.
const (
	// magic begins the stream of the side that connected (UCT_TCP_MAGIC_NUMBER).
	magic    = 0xCAFEBABE12345678
	magicLen = 8

	// hdrLen is the size of a frame's header: u8 am_id, u32 payload length
	// (uct_tcp_am_hdr_t).
	hdrLen = 5
)

// Frame ids above those of active messages (uct_tcp_ep_am_id_t).
const (
	idCM        = 32 // UCT_TCP_EP_CM_AM_ID
	idPutReq    = 33 // UCT_TCP_EP_PUT_REQ_AM_ID
	idPutAck    = 34 // UCT_TCP_EP_PUT_ACK_AM_ID
	idKeepalive = 35 // UCT_TCP_EP_KEEPALIVE_AM_ID
)

// Payload lengths of frames, in bytes; the payload of a connection request has a variable part.
const (
	putReqLen = 20 // uct_tcp_ep_put_req_hdr_t
	putAckLen = 4  // uct_tcp_ep_put_ack_hdr_t
	eventLen  = 4  // every CM packet except a request
	reqLen    = 13 // uct_tcp_cm_conn_req_pkt_t, a sockaddr follows
)

// cmEvent is the first field of a connection manager packet
// (uct_tcp_cm_conn_event_t).
type cmEvent uint32

const (
	eventReq    cmEvent = 1
	eventAck    cmEvent = 2
	eventAckReq cmEvent = eventReq | eventAck
	eventFin    cmEvent = 4
)

// reqToEP in the flags of a request says that its id is an endpoint key of the
// receiver (UCT_TCP_CM_CONN_REQ_PKT_FLAG_CONNECT_TO_EP).
const reqToEP = 1 << 0

// maxControl is the largest number of control bytes that is queued at once: one frame of each kind
// that can be owed, or the magic number and a request.
const maxControl = magicLen +
	hdrLen + reqLen + sockaddrLen6 +
	3*(hdrLen+eventLen) +
	hdrLen + putAckLen

var le = binary.LittleEndian

// request is a parsed connection request (REQ).
type request struct {
	flags uint8
	id    uint64   // connection sequence number, or the receiver's endpoint key
	from  sockaddr // the sender's listener
}

// putHeader announces a put. The payload follows the frame and is not counted in the frame's
// length.
type putHeader struct {
	addr   uint64
	length uint64
	sn     uint32
}

// putFrameHeader writes a frame header into b.
func putFrameHeader(b []byte, id uint8, length int) {
	_ = b[hdrLen-1]
	b[0] = id
	le.PutUint32(b[1:], uint32(length))
}

// appendFrameHeader appends a frame header.
func appendFrameHeader(b []byte, id uint8, length int) []byte {
	b = append(b, id)
	return le.AppendUint32(b, uint32(length))
}

// appendMagic appends the magic number, which the connecting side sends first.
func appendMagic(b []byte) []byte { return le.AppendUint64(b, magic) }

// appendRequest appends a framed connection request.
func appendRequest(b []byte, r request) []byte {
	b = appendFrameHeader(b, idCM, reqLen+r.from.wireLen())
	b = le.AppendUint32(b, uint32(eventReq))
	b = append(b, r.flags)
	b = le.AppendUint64(b, r.id)
	return r.from.appendWire(b)
}

// parseRequest reads the payload of a request frame.
func parseRequest(b []byte) (request, error) {
	if len(b) < reqLen {
		return request{}, fmt.Errorf("tcp: connection request of %d bytes: %w", len(b), ucs.ErrInvalidParam)
	}
	from, err := parseSockaddr(b[reqLen:])
	if err != nil {
		return request{}, err
	}
	return request{flags: b[4], id: le.Uint64(b[5:]), from: from}, nil
}

// appendEvent appends a framed packet that is not a request.
func appendEvent(b []byte, ev cmEvent) []byte {
	b = appendFrameHeader(b, idCM, eventLen)
	return le.AppendUint32(b, uint32(ev))
}

// appendPutHeader appends the frame that announces a put.
func appendPutHeader(b []byte, h putHeader) []byte {
	b = appendFrameHeader(b, idPutReq, putReqLen)
	b = le.AppendUint64(b, h.addr)
	b = le.AppendUint64(b, h.length)
	return le.AppendUint32(b, h.sn)
}

// parsePutHeader reads the payload of a put frame, putReqLen bytes.
func parsePutHeader(b []byte) putHeader {
	_ = b[putReqLen-1]
	return putHeader{addr: le.Uint64(b), length: le.Uint64(b[8:]), sn: le.Uint32(b[16:])}
}

// appendPutAck appends a framed acknowledgement of all puts up to sn.
func appendPutAck(b []byte, sn uint32) []byte {
	b = appendFrameHeader(b, idPutAck, putAckLen)
	return le.AppendUint32(b, sn)
}
