package proto

// StreamDataSize is the size of the header of stream data.
const StreamDataSize = 8

var errStreamData = amError("stream data", "shorter than its header")

// StreamData is the header of a piece of a byte stream: ucp_stream_am_data_t. It has no sequence
// number, because the lane delivers the pieces in order.
type StreamData struct {
	EpID EndpointID // the receiver's endpoint
}

// Word returns the header as the 8-byte header of a short active message.
func (h StreamData) Word() uint64 { return uint64(h.EpID) }

// Put packs the header at the start of dst and returns its size.
func (h StreamData) Put(dst []byte) int {
	le.PutUint64(dst, uint64(h.EpID))
	return StreamDataSize
}

// Append appends the packed header.
func (h StreamData) Append(b []byte) []byte { return le.AppendUint64(b, uint64(h.EpID)) }

// ParseStreamData returns the header and the bytes of the stream.
func ParseStreamData(b []byte) (h StreamData, data []byte, err error) {
	if len(b) < StreamDataSize {
		return h, nil, errStreamData
	}
	h.EpID = EndpointID(le.Uint64(b))
	return h, b[StreamDataSize:], nil
}
