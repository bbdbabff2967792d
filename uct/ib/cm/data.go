//go:build linux

package cm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// The data of a packet is the length of the private data in one byte, a status in one byte
// (uct_rdmacm_priv_data_hdr_t), and the private data of the application. The limit on the
// private data is the same for an answer as for a request, as in C UCX, although an answer has
// room for more (uct_rdmacm_cm_get_max_conn_priv).
const (
	headerLen  = 2
	maxPrivate = rdmacm.MaxConnectData - headerLen
)

// protocolError is a violation of the protocol by a peer.
type protocolError string

const (
	errShort  protocolError = "the peer's data is shorter than its length field"
	errStatus protocolError = "the peer's data has an invalid status"
)

// Error implements error.
func (b protocolError) Error() string { return string(b) }

// appendData appends the data of a packet. private has at most maxPrivate bytes.
func appendData(b []byte, status ucs.Status, private []byte) []byte {
	b = append(b, byte(len(private)), byte(status))
	return append(b, private...)
}

// parseData parses the data of a packet, which may be followed by zeros. private is a part of b.
func parseData(b []byte) (status ucs.Status, private []byte, err error) {
	if len(b) < headerLen || headerLen+int(b[0]) > len(b) {
		return 0, nil, fmt.Errorf("%w: %d bytes", errShort, len(b))
	}
	end := headerLen + int(b[0])
	if status = ucs.Status(b[1]); status > 0 {
		return 0, nil, fmt.Errorf("%w: %d", errStatus, int8(status))
	}
	return status, b[headerLen:end:end], nil
}

// rejection is the data sent to a client that is rejected.
var rejection = appendData(nil, ucs.ErrRejected, nil)
