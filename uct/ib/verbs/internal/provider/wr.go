//go:build linux

package provider

// WROpcode is the operation of a work request.
type WROpcode uint32

// Operations of work requests; enum ib_uverbs_wr_opcode.
const (
	WRRDMAWrite         WROpcode = 0
	WRRDMAWriteWithImm  WROpcode = 1
	WRSend              WROpcode = 2
	WRSendWithImm       WROpcode = 3
	WRRDMARead          WROpcode = 4
	WRAtomicCmpAndSwp   WROpcode = 5
	WRAtomicFetchAndAdd WROpcode = 6
	WRLocalInv          WROpcode = 7
	WRBindMW            WROpcode = 8
	WRSendWithInv       WROpcode = 9
)

// String returns the name of the operation.
func (o WROpcode) String() string {
	return Name(int(o), "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ", "ATOMIC_CMP_AND_SWP",
		"ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV")
}

// SendFlags modify a work request.
type SendFlags uint32

// Flags of work requests; enum ib_send_flags, ib_verbs.h. For SendInline see QP.Begin and
// QP.Inlined.
const (
	SendFence     SendFlags = 1 << 0
	SendSignaled  SendFlags = 1 << 1
	SendSolicited SendFlags = 1 << 2
	SendInline    SendFlags = 1 << 3
)

// WR is the fixed part of a send request: all but its data, the destination of a datagram and the
// parameters of a bind. Fields that the operation does not have may hold values of earlier
// requests.
type WR struct {
	ID         uint64
	RemoteAddr uint64
	CompareAdd uint64
	Swap       uint64
	Opcode     WROpcode
	Imm        uint32 // WITH_IMM: immediate data in native byte order; WITH_INV, LOCAL_INV: the key
	Flags      SendFlags
	RKey       RKey
	Length     uint32 // bytes of the list passed to QP.Begin, or of the inline data that follows
}

// SGE is a scatter/gather element, a piece of registered memory; struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   LKey
}

// Bind has the parameters of a WRBindMW, for QP.Bind.
type Bind struct {
	Addr, Length uint64
	LKey         LKey // local key of the memory region
	Old, New     RKey // keys of the window: the current one, and the one after the bind
	Access       uint32
}

// RecvWR is a work request for a receive queue; struct ibv_recv_wr.
type RecvWR struct {
	ID     uint64
	SGList []SGE
}

// Length returns the total length of a list in bytes. It returns ErrTooManySGE if the list has more
// elements than the parameter most, and ErrTooLong if the total exceeds MaxLength.
func Length(list []SGE, most int) (uint32, error) {
	if len(list) > most {
		return 0, ErrTooManySGE
	}
	total := uint64(0)
	for i := range list {
		total += uint64(list[i].Length)
	}
	if total > MaxLength {
		return 0, ErrTooLong
	}
	return uint32(total), nil
}

// MaxLength is the largest length of a message, in bytes.
const MaxLength = 1 << 31
