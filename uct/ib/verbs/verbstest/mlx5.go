//go:build linux

package verbstest

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// MLX5 describes an mlx5_ib device and its kernel. The zero value is a present-day device. With it,
// the program chooses the version of completions, and whether doorbell pages come with the context
// or are objects.
type MLX5 struct {
	Version0   bool // the device supports only version 0 of completions
	StaticUARs bool // the kernel cannot allocate doorbell pages as objects, as before Linux 5.7
	OldUARs    bool // the kernel does not report how many UARs are in a page of memory, as before Linux 4.11
	NoWC       bool // no write combining: bf_reg_size is 0
	Answer     int  // bytes of the answer to GET_CONTEXT; fewer for an older kernel; 0: all
	// Loose accepts any value in fields that the device ignores. UCX, which writes entries itself,
	// leaves old contents there or stores its own data.
	Loose bool
}

// MLX5Driver is the driver number of mlx5_ib devices, MLX5ABI the version of their ABI.
const (
	MLX5Driver = abi.RDMA_DRIVER_MLX5
	MLX5ABI    = abi.MLX5_IB_UVERBS_ABI_VERSION
)

// mlx5 implements personality for mlx5_ib.
type mlx5 struct{ cfg MLX5 }

func (mlx5) driver() (number uint32, abi int) { return MLX5Driver, MLX5ABI }
func (mlx5) limits() Limits                   { return mlx5Limits }
func (mlx5) polls() bool                      { return true }
func (mlx5) failuresWakeSolicited() bool      { return true }
func (mlx5) cqFlags() uint32                  { return cqTimestamps | cqIgnoreOverrun }

// Limits of a ConnectX-5, except those of memory. SGE is 30: an entry of a send queue has at most
// 63 segments, of which a read or write uses 2 for itself.
var mlx5Limits = Limits{QPs: 1 << 18, WR: 1 << 15, SGE: 30, Inline: 1008, CQE: 1<<22 - 1, SRQs: 1 << 23, SRQWR: 1<<15 - 1, RdAtomic: 16, MemLock: 1 << 62}

// attr sets the vendor and the capabilities; enum ib_device_cap_flags, ib_verbs.h.
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

// mlx5File is the kernel's half of the mlx5_ib driver for an open device.
type mlx5File struct {
	f       *file
	cfg     *MLX5
	fd      int    // file of the doorbell pages, indexed by their mmap offsets
	dynamic bool   // the program allocates doorbell pages as objects
	version uint8  // version of completions
	regs    []int  // number of queue pairs that use each static register
	lowLat  int    // registers at the end of regs for one queue pair each; -1: see takeReg
	uars    []*uar // doorbell pages, the static ones first
	nextUAR uint32
	nextNum uint32         // number last given to a completion queue, SRQ or protection domain
	records map[uint64]int // number of doorbell records in a page, by its address
}

// First numbers of UARs and of queues. The two ranges do not overlap.
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

// close frees the doorbell pages. Stores to a page outside of its doorbells are reported as a
// broken rule.
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

// has reports whether the driver supports a command. It does not support POST_SEND and
// REQ_NOTIFY_CQ, because programs ring doorbells by a store to memory.
func (*mlx5File) has(command uint32) bool {
	return command != abi.IB_USER_VERBS_CMD_POST_SEND && command != abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ
}

// fits reports whether the kernel accepts a struct b of driver-specific data. The parameter least
// is the number of bytes that b must have. The parameter most is the number of bytes that the
// kernel knows; any bytes after these must be zero.
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

// context answers GET_CONTEXT; linux/drivers/infiniband/hw/mlx5/main.c, mlx5_ib_alloc_ucontext.
func (x *mlx5File) context(d uhw) syscall.Errno {
	const (
		oldest   = 8 // bytes of the original request
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
	case x.dynamic: // the number is not checked
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

// device answers the extended QUERY_DEVICE: the device has none of the driver-specific
// capabilities.
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

// newAH returns the MAC address of the next hop in the answer; ah.c, mlx5_ib_create_ah.
func (x *mlx5File) newAH(a *ah, d uhw) syscall.Errno {
	resp := abi.Mlx5CreateAhResp{}
	if !a.path.from.InfiniBand {
		const least = 10 // up to the address of the next hop
		if d.out != nil && len(d.out) < least {
			return syscall.EINVAL
		}
		resp.ResponseLength, resp.Dmac = least, nextHop(a.path.dgid)
	}
	store(d.out, resp)
	return 0
}

// nextHop returns the MAC address to which packets for a GID are sent: the address of an IPv6 or
// IPv4 multicast group, or one that is made from the GID in place of address resolution.
func nextHop(gid [16]byte) [6]byte {
	switch {
	case gid[0] == 0xff:
		return [6]byte{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}
	case isMulticast(gid):
		return [6]byte{0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15]}
	}
	return [6]byte{0x02, 0x00, gid[12], gid[13], gid[14], gid[15]}
}

// caps reports no send capabilities. The kernel does not know what fits into a send queue that the
// program has laid out (qp.c, mlx5_ib_query_qp).
func (*mlx5File) caps(q *qp) abi.QpCap {
	c := q.cap
	c.MaxSendWr, c.MaxSendSge, c.MaxInlineData = 0, 0, 0
	return c
}

// resizeSRQ fails: mlx5_ib does not support it (srq.c, mlx5_ib_modify_srq).
func (*mlx5File) resizeSRQ(*srq, uint32, uhw) syscall.Errno { return syscall.EINVAL }

// The sysfs files of a ConnectX-5 adapter, on a PCI bus that a machine is unlikely to have.

const pciDomain = "pci9000:00"

// adapter implements personality. The names are those of drivers/pci/pci-sysfs.c.
func (mlx5) adapter(k *Kernel, add func(line string)) string {
	slot := fmt.Sprintf("9000:%02x:00.0", 1+k.number)
	dir := "devices/" + pciDomain + "/" + slot
	class := 0x020000 // network controller
	if k.ports[0].InfiniBand {
		class = 0x020700
	}
	for _, f := range [][2]string{
		{"vendor", "0x15b3"}, {"device", "0x1017"}, {"subsystem_vendor", "0x15b3"}, {"subsystem_device", "0x0008"}, {"revision", "0x00"},
		{"class", fmt.Sprintf("%#08x", class)},
		{"modalias", fmt.Sprintf("pci:v000015B3d00001017sv000015B3sd00000008bc02sc%02Xi00", class>>8&0xff)},
		{"numa_node", "-1"}, {"local_cpus", "ffffffff"}, {"local_cpulist", "0-31"},
		{"current_link_speed", "8.0 GT/s PCIe"}, {"max_link_speed", "8.0 GT/s PCIe"}, {"current_link_width", "16"}, {"max_link_width", "16"},
	} {
		add(dir + "/" + f[0] + ": " + f[1])
	}
	add(dir + "/driver -> ../../../bus/pci/drivers/mlx5_core")
	add("bus/pci/devices/" + slot + " -> ../../../" + dir)
	return dir
}

// identity implements personality.
func (mlx5) identity(file func(path, format string, args ...any)) {
	file("fw_ver", "16.35.2000")
	file("hca_type", "MT4119")
	file("board_id", "MT_0000000008")
	file("hw_rev", "0")
}
