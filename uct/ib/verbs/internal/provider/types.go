//go:build linux

package provider

import "fmt"

// Numbers, keys and identifiers of InfiniBand, each with its own type.
type (
	QPN  uint32 // number of a queue pair, 24 bits
	LKey uint32 // key of registered memory, for local use
	RKey uint32 // key of registered memory, for peers
	QKey uint32 // key that datagrams carry and the receiver checks
	LID  uint16 // address of a port in an InfiniBand subnet
)

// QPType is the transport service of a queue pair.
type QPType uint8

// Transport services; enum ib_uverbs_qp_type.
const (
	RC QPType = 2 // reliable connection
	UC QPType = 3 // unreliable connection
	UD QPType = 4 // unreliable datagram
)

// String returns the name of the transport service.
func (t QPType) String() string { return Name(int(t), "", "", "RC", "UC", "UD") }

// QPCap has the limits of a queue pair; struct ibv_qp_cap.
type QPCap struct {
	MaxSendWR  int
	MaxRecvWR  int
	MaxSendSGE int
	MaxRecvSGE int
	MaxInline  int // bytes
}

// Name returns names[i], or i as a decimal number if there is no such name.
func Name(i int, names ...string) string {
	if i >= 0 && i < len(names) && names[i] != "" {
		return names[i]
	}
	return fmt.Sprint(i)
}
