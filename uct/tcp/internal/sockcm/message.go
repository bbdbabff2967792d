//go:build linux

package sockcm

import (
	"encoding/binary"

	"github.com/ucx-go/ucx/ucs"
)

// A message (uct_tcp_sockcm_priv_data_hdr_t) consists of the length of the private data in 8
// bytes, a status in 1 byte, 7 unused bytes, and the private data. C UCX does not clear the
// unused bytes.
const headerLen = 16

// message is a received message.
type message struct {
	status  ucs.Status
	private []byte
}

// appendMessage appends a message.
func appendMessage(b []byte, status ucs.Status, private []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(private)))
	b = append(b, byte(status), 0, 0, 0, 0, 0, 0, 0)
	return append(b, private...)
}

// parseHeader reads the first headerLen bytes of a message.
func parseHeader(b []byte) (private uint64, status ucs.Status) {
	return binary.LittleEndian.Uint64(b), ucs.Status(b[8])
}
