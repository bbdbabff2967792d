//go:build linux

package perfoob

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// infoLen is the size of ucx_perf_ep_info_t, the beginning of each endpoint's information: five
// 8-byte numbers.
const infoLen = 40

// UCPInfo is the information about a UCP worker that one side sends to the other.
type UCPInfo struct {
	Address    []byte // worker address
	Rkey       []byte // packed key of the receive buffer, empty for tests without remote access
	RecvBuffer uint64 // the receive buffer's address
}

// Append appends the information of one worker.
func (i *UCPInfo) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(len(i.Address)))
	b = le.AppendUint64(b, uint64(infoLen+len(i.Address)+len(i.Rkey)))
	b = le.AppendUint64(b, 0) // C sends uninitialized bytes here
	b = le.AppendUint64(b, uint64(len(i.Rkey)))
	b = le.AppendUint64(b, i.RecvBuffer)
	b = append(b, i.Address...)
	return append(b, i.Rkey...)
}

// ParseUCPInfos reads the information of n workers, which fill b. The results
// share b's memory.
func ParseUCPInfos(b []byte, n int) ([]UCPInfo, error) {
	list := make([]UCPInfo, n)
	for i := range list {
		var err error
		if b, err = list[i].parse(b); err != nil {
			return nil, err
		}
	}
	if len(b) > 0 {
		return nil, invalid("endpoint information of %d workers with %d trailing bytes", n, len(b))
	}
	return list, nil
}

// parse reads the information of one worker and returns what follows it.
func (i *UCPInfo) parse(b []byte) (rest []byte, err error) {
	if len(b) < infoLen {
		return nil, fmt.Errorf("endpoint information of %d bytes, need %d: %w", len(b), infoLen, ucs.ErrMessageTruncated)
	}
	le := binary.LittleEndian
	addr, total, rkey := le.Uint64(b[0:]), le.Uint64(b[8:]), le.Uint64(b[24:])
	if total < infoLen || total > uint64(len(b)) || addr > total-infoLen || rkey != total-infoLen-addr {
		return nil, invalid("endpoint information of %d bytes with an address of %d and a key of %d bytes, %d in all",
			len(b), addr, rkey, total)
	}
	body := b[infoLen:total:total]
	*i = UCPInfo{Address: body[:addr:addr], Rkey: body[addr:], RecvBuffer: le.Uint64(b[32:])}
	return b[total:], nil
}

// UCTInfo is the information about a UCT interface that one side sends to the other.
type UCTInfo struct {
	Rkey       []byte
	DeviceAddr []byte
	IfaceAddr  []byte
	EpAddr     []byte // for interfaces that connect endpoint to endpoint
	RecvBuffer uint64
}

// Append appends the information of one interface.
func (i *UCTInfo) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(len(i.DeviceAddr)))
	b = le.AppendUint64(b, uint64(len(i.IfaceAddr)))
	b = le.AppendUint64(b, uint64(len(i.EpAddr)))
	b = le.AppendUint64(b, uint64(len(i.Rkey)))
	b = le.AppendUint64(b, i.RecvBuffer)
	b = append(b, i.Rkey...)
	b = append(b, i.DeviceAddr...)
	b = append(b, i.IfaceAddr...)
	return append(b, i.EpAddr...)
}

// ParseUCTInfo reads the information of one interface, the only one in b. The result shares b's
// memory.
func ParseUCTInfo(b []byte) (UCTInfo, error) {
	if len(b) < infoLen {
		return UCTInfo{}, fmt.Errorf("endpoint information of %d bytes, need %d: %w", len(b), infoLen, ucs.ErrMessageTruncated)
	}
	le := binary.LittleEndian
	i := UCTInfo{RecvBuffer: le.Uint64(b[32:])}
	body := b[infoLen:]
	for _, part := range []struct {
		dst *[]byte
		off int
	}{{&i.Rkey, 24}, {&i.DeviceAddr, 0}, {&i.IfaceAddr, 8}, {&i.EpAddr, 16}} {
		n := le.Uint64(b[part.off:])
		if n > uint64(len(body)) {
			return UCTInfo{}, invalid("endpoint information of %d bytes is %d bytes shorter than a length in it", len(b), n-uint64(len(body)))
		}
		*part.dst, body = body[:n:n], body[n:]
	}
	if len(body) > 0 {
		return UCTInfo{}, invalid("endpoint information with %d trailing bytes", len(body))
	}
	return i, nil
}
