//go:build linux

package provider

import "fmt"

// Numbers that must not be mixed up.
type (
	QPN  uint32 // of a queue pair, 24 bits
	LKey uint32 // of memory, for local use
	RKey uint32 // of memory, for peers
	QKey uint32 // of datagrams
	LID  uint16 // of a port in an InfiniBand subnet
)

// QPType is the service of a queue pair.
type QPType uint8

// Services; enum ib_uverbs_qp_type.
const (
	RC QPType = 2 // reliable connection
	UC QPType = 3 // unreliable connection
	UD QPType = 4 // unreliable datagram
)

// String returns the name of the service.
func (t QPType) String() string { return Name(int(t), "", "", "RC", "UC", "UD") }

// QPCap is how much a queue pair takes; struct ibv_qp_cap.
type QPCap struct {
	MaxSendWR  int
	MaxRecvWR  int
	MaxSendSGE int
	MaxRecvSGE int
	MaxInline  int // bytes
}

// Name is the i-th name, or the number.
func Name(i int, names ...string) string {
	if i >= 0 && i < len(names) && names[i] != "" {
		return names[i]
	}
	return fmt.Sprint(i)
}
