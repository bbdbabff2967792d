//go:build linux

package provider

// WROpcode is what a work request asks for.
type WROpcode uint32

// Operations; enum ib_uverbs_wr_opcode.
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

// Flags; enum ib_send_flags, ib_verbs.h. Of SendInline see QP.Begin and Inlined.
const (
	SendFence     SendFlags = 1 << 0
	SendSignaled  SendFlags = 1 << 1
	SendSolicited SendFlags = 1 << 2
	SendInline    SendFlags = 1 << 3
)

// WR is what all requests to send begin with. The fields that the operation does not
// have are of another request.
type WR struct {
	ID         uint64
	RemoteAddr uint64
	CompareAdd uint64
	Swap       uint64
	Opcode     WROpcode
	Imm        uint32 // WITH_IMM: in the order of the machine; WITH_INV, LOCAL_INV: the key
	Flags      SendFlags
	RKey       RKey
	Length     uint32 // of the list that comes with it, or of the inline data that follows
}

// SGE is a piece of registered memory; struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   LKey
}

// Bind is what a WRBindMW binds.
type Bind struct {
	Addr, Length uint64
	LKey         LKey // of the region
	Old, New     RKey // of the window
	Access       uint32
}

// RecvWR is a work request for a receive queue; struct ibv_recv_wr.
type RecvWR struct {
	ID     uint64
	SGList []SGE
}

// Length is how much the pieces hold together, or what is wrong with them: there may
// be most of them.
func Length(list []SGE, most int) (uint32, error) {
	if len(list) > most {
		return 0, ErrManySGE
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

// MaxLength is how long a message can be.
const MaxLength = 1 << 31
