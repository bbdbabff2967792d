//go:build linux

package cm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// The data of a packet (uct_rdmacm_priv_data_hdr_t) is its length in one byte, a status in
// another, and what the application says. C takes as much with an answer as with a
// request, although there would be more room (uct_rdmacm_cm_get_max_conn_priv).
const (
	headerLen  = 2
	maxPrivate = rdmacm.MaxConnectData - headerLen
)

// breach is how a peer can break the protocol.
type breach string

const (
	errShort  breach = "the peer's data is shorter than it says"
	errStatus breach = "the peer's data has a status that means nothing there"
)

// Error implements error.
func (b breach) Error() string { return string(b) }

// appendData appends the data of a packet. There are at most maxPrivate bytes.
func appendData(b []byte, status ucs.Status, private []byte) []byte {
	b = append(b, byte(len(private)), byte(status))
	return append(b, private...)
}

// parseData reads the data of a packet, behind which there may be zeros. The result is
// part of b.
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

// rejection is what a client gets that is not wanted.
var rejection = appendData(nil, ucs.ErrRejected, nil)
