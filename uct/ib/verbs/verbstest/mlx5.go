//go:build linux

package verbstest

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// MLX5 is what a device as of mlx5_ib is like, and its kernel. The zero value is a device
// of today, which leaves to the program what it can choose: the version of completions,
// and whether doorbell pages come with the context or are objects.
type MLX5 struct {
	Version0   bool // of completions: the device has no other
	StaticUARs bool // the kernel has no doorbell pages that are objects, as before Linux 5.7
	OldUARs    bool // it does not say how many of these there are in a page of memory, as before Linux 4.11
	NoWC       bool // no write combining: bf_reg_size is 0
	Answer     int  // so many bytes of the answer to GET_CONTEXT it knows; 0: all
	// Loose lets anything stand in what the device does not look at: UCX, which writes
	// entries itself, leaves there what was there, or keeps its own.
	Loose bool
}

// MLX5Driver is the number of the driver of devices as of mlx5_ib, MLX5ABI the version
// of its interface.
const (
	MLX5Driver = abi.RDMA_DRIVER_MLX5
	MLX5ABI    = abi.MLX5_IB_UVERBS_ABI_VERSION
)

// mlx5 is the personality of mlx5_ib.
type mlx5 struct{ cfg MLX5 }

func (mlx5) driver() (number uint32, abi int) { return MLX5Driver, MLX5ABI }
func (mlx5) limits() Limits                   { return mlx5Limits }
func (mlx5) polls() bool                      { return true }
func (mlx5) failuresTold() bool               { return true }
func (mlx5) cqFlags() uint32                  { return cqTimestamps | cqIgnoreOverrun }

// Limits of a ConnectX-5, but for those of memory: an entry of a send queue has 63
// segments at most, of which a read or write has 2 to itself.
var mlx5Limits = Limits{QPs: 1 << 18, WR: 1 << 15, SGE: 30, Inline: 1008, CQE: 1<<22 - 1, SRQs: 1 << 23, SRQWR: 1<<15 - 1, RdAtomic: 16, MemLock: 1 << 62}

// attr says whose device it is, and what it can do; enum ib_device_cap_flags, ib_verbs.h.
func (mlx5) attr(a *abi.ExQueryDeviceResp) {
	const (
		changesPort  = 1<<4 | 1<<5 // auto path migration, changing the physical port
		portActive   = 1 << 10
		imageGUID    = 1 << 11
		rnrNAK       = 1 << 12
		windows      = 1 << 17
		invalidation = 1 << 21
		windows2B    = 1 << 24
	)
	b := &a.Base
	b.FwVer, b.VendorId, b.VendorPartId = 16<<32|35<<16|2000, 0x2c9, 4119
	b.DeviceCapFlags = 1<<1 | 1<<2 | changesPort | portActive | imageGUID | rnrNAK | windows | invalidation | windows2B
	b.MaxSgeRd, b.MaxPkeys, b.LocalCaAckDelay = 30, 128, 16
}

// mlx5File is the kernel's half of the driver for an open device.
type mlx5File struct {
	f       *file
	cfg     *MLX5
	fd      int    // a file with the doorbell pages, by what they are mapped at
	dynamic bool   // these are objects
	version uint8  // of completions
	regs    []int  // how many queue pairs a static register has
	lowLat  int    // of these so many, from the end, are for one queue pair each
	uars    []*uar // the static ones first
	nextUAR uint32
	nextNum uint32         // of a completion queue, or a shared receive queue
	records map[uint64]int // pages with doorbell records, and what is in them
}

// Numbers of UARs and of queues begin there: none is what another is.
const (
	firstUAR = 0x80
	firstNum = 0x400
)

func (m mlx5) open(f *file) driver {
	x := &mlx5File{f: f, cfg: &m.cfg, fd: -1, nextUAR: firstUAR, nextNum: firstNum, records: make(map[uint64]int)}
	if fd, err := sealedFile(pagesEnd); err == nil {
		x.fd = fd
	}
	return x
}

func (x *mlx5File) pages() int { return x.fd }

// close gives the pages back. What lies where no doorbell is has been stored by mistake.
func (x *mlx5File) close() {
	for _, u := range x.uars {
		u.stray(x)
		u.end()
	}
	x.uars = nil
	if x.fd >= 0 {
		unix.Close(x.fd)
		x.fd = -1
	}
}

// has reports whether the driver has a command: there is none for doorbells.
func (*mlx5File) has(command uint32) bool {
	return command != abi.IB_USER_VERBS_CMD_POST_SEND && command != abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ
}

// fits reports whether what a program has sent is a struct of which the first least
// bytes are there, and nothing that a kernel which knows only most of them would have to
// know.
func fits(b []byte, least, most int) bool {
	if len(b) < least {
		return false
	}
	for _, v := range b[min(len(b), most):] {
		if v != 0 {
			return false
		}
	}
	return true
}

// context answers GET_CONTEXT; linux/drivers/infiniband/hw/mlx5/main.c,
// mlx5_ib_alloc_ucontext.
func (x *mlx5File) context(d uhw) syscall.Errno {
	const (
		oldest   = 8 // bytes of the first request there was
		least    = 16
		mostRegs = 512
	)
	if x.fd < 0 {
		return syscall.ENOMEM
	}
	if len(d.in) != oldest && len(d.in) < least {
		return syscall.EINVAL
	}
	req := load[abi.Mlx5AllocUcontextReqV2](d.in)
	if req.Flags&abi.MLX5_IB_ALLOC_UCTX_DEVX != 0 {
		x.f.k.net.say(x.f.k.cfg.Name + ": a context for DEVX is refused")
		return syscall.EPERM
	}
	if req.Flags != 0 || req.CompMask != 0 || req.Reserved0 != 0 || req.Reserved1 != 0 || req.Reserved2 != 0 {
		return syscall.EOPNOTSUPP
	}
	regs := (req.TotalNumBfregs + regsPerUAR - 1) / regsPerUAR * regsPerUAR
	if req.NumLowLatencyBfregs > regs-1 {
		return syscall.EINVAL
	}
	caps := req.LibCaps
	if x.cfg.OldUARs {
		caps = 0
	}
	if x.cfg.StaticUARs {
		caps &^= abi.MLX5_LIB_CAP_DYN_UAR
	}
	x.dynamic = caps&abi.MLX5_LIB_CAP_DYN_UAR != 0
	switch {
	case x.dynamic: // then nobody looks at the number
	case regs == 0:
		return syscall.EINVAL
	case req.TotalNumBfregs > mostRegs:
		return syscall.ENOMEM
	}
	x.version = min(req.MaxCqeVersion, 1)
	if x.cfg.Version0 {
		x.version = 0
	}
	resp := abi.Mlx5AllocUcontextResp{
		QpTabSize: uint32(x.f.k.cfg.Limits.QPs), BfRegSize: x.regSize(), TotBfregs: regs, CacheLineSize: 64,
		MaxSqDescSz: 1024, MaxRqDescSz: 512, MaxSendWqebb: 1 << 15, MaxRecvWr: 1 << 15, MaxSrqRecvWr: 1 << 15,
		NumPorts: uint16(len(x.f.k.ports)), CqeVersion: x.version,
		CmdsSuppUhw: abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		LogUarSize:  12, NumUarsPerPage: 1,
	}
	if x.cfg.OldUARs {
		resp.LogUarSize, resp.NumUarsPerPage = 0, 0
	}
	if x.dynamic {
		resp.TotBfregs = 0
	} else {
		x.regs, x.lowLat = make([]int, regs), int(req.NumLowLatencyBfregs)
		if len(d.in) == oldest {
			x.lowLat = -1
		}
		for i := range int(regs) / regsPerUAR {
			if x.newStatic(i) == nil {
				return syscall.ENOMEM
			}
		}
	}
	n := min(len(d.out), len(abi.Bytes(&resp)))
	if x.cfg.Answer > 0 {
		n = min(n, x.cfg.Answer)
	}
	resp.ResponseLength = uint32(n)
	copy(d.out[:n], abi.Bytes(&resp))
	x.made("context", d)
	return 0
}

// device tells nothing of what is not in the model.
func (x *mlx5File) device(d uhw) {
	var b [104]byte
	n := min(len(d.out), len(b))
	putU32(b[4:], uint32(n))
	copy(d.out, b[:])
}

func (x *mlx5File) newPD(d uhw) {
	x.nextNum++
	store(d.out, abi.Mlx5AllocPdResp{Pdn: x.nextNum})
}

func (*mlx5File) newMW(typ uint8) syscall.Errno {
	if typ != 1 && typ != 2 {
		return syscall.EINVAL
	}
	return 0
}

// newAH resolves the next hop; ah.c, mlx5_ib_create_ah.
func (x *mlx5File) newAH(a *ah, d uhw) syscall.Errno {
	resp := abi.Mlx5CreateAhResp{}
	if !a.way.from.InfiniBand {
		const least = 10 // up to the address of the next hop
		if d.out != nil && len(d.out) < least {
			return syscall.EINVAL
		}
		resp.ResponseLength, resp.Dmac = least, nextHop(a.way.dgid)
	}
	store(d.out, resp)
	return 0
}

// nextHop is the address of the network interface that a GID leads to: what a group of
// IPv6 or IPv4 has, and else one that is made from the GID, as if an ARP had answered it.
func nextHop(gid [16]byte) [6]byte {
	switch {
	case gid[0] == 0xff:
		return [6]byte{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}
	case isMulticast(gid):
		return [6]byte{0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15]}
	}
	return [6]byte{0x02, 0x00, gid[12], gid[13], gid[14], gid[15]}
}

// caps are not the truth: the kernel does not know what fits into a queue of sends that
// a program has laid out (qp.c, mlx5_ib_query_qp).
func (*mlx5File) caps(q *qp) abi.QpCap {
	c := q.cap
	c.MaxSendWr, c.MaxSendSge, c.MaxInlineData = 0, 0, 0
	return c
}

// resizeSRQ refuses: there is no such thing (srq.c, mlx5_ib_modify_srq).
func (*mlx5File) resizeSRQ(*srq, uint32, uhw) syscall.Errno { return syscall.EINVAL }
