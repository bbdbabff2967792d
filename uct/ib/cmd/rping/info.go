//go:build linux

package main

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// info is a message that describes a buffer; struct rping_rdma_info, rping.c. An info of zeros
// means "go on".
type info struct {
	addr uint64
	rkey verbs.RKey
	size uint32
}

// infoLen is the length of an encoded info in bytes. Its fields are big endian.
const infoLen = 16

func (i info) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, i.addr)
	b = binary.BigEndian.AppendUint32(b, uint32(i.rkey))
	return binary.BigEndian.AppendUint32(b, i.size)
}

func parseInfo(b []byte) (info, error) {
	if len(b) != infoLen {
		return info{}, fmt.Errorf("received bogus data, size %d", len(b))
	}
	return info{binary.BigEndian.Uint64(b), verbs.RKey(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint32(b[12:])}, nil
}
