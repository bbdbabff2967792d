//go:build linux

package mlx5

import (
	"fmt"
	"os"
	"sync"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

func init() {
	provider.Register(&provider.Provider{Name: "mlx5", ID: abi.RDMA_DRIVER_MLX5,
		MinABI: abi.MLX5_IB_UVERBS_ABI_VERSION, MaxABI: abi.MLX5_IB_UVERBS_ABI_VERSION, Open: open})
}

// blueFlameEnv is the environment variable that enables BlueFlame. It is not libmlx5's
// MLX5_SHUT_UP_BF, because that variable disables BlueFlame, which is on by default there.
const blueFlameEnv = "VERBS_BLUEFLAME"

// blueFlame reports whether single short entries may be written into the adapter's registers.
// BlueFlame works only if the registers are mapped write-combining, which a program cannot find
// out; a doorbell alone always works.
func blueFlame() bool { return os.Getenv(blueFlameEnv) == "1" }

// context is an open device.
type context struct {
	dev     provider.Device
	request abi.Mlx5AllocUcontextReqV2
	answer  abi.Mlx5AllocUcontextResp
	limits  limits
	caps    abi.QueryDeviceResp
	uidx    bool // completions have version 1: they contain queue pairs' user indices, not QPNs
	pages   pages
	records records

	// The objects whose numbers are in completions.
	qps  table[qp]  // by user index if uidx is set, else by QPN
	srqs table[srq] // by SRQ number

	// mu is held while the tables change. It is locked before the locks of completion queues.
	mu      sync.Mutex
	numbers numbers // under mu: user indices of queue pairs

	links sync.Map // values of type port, by port number
}

func open(d provider.Device) (provider.Context, error) {
	c := &context{dev: d}
	all, own := registers()
	c.request = abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: all, NumLowLatencyBfregs: own, MaxCqeVersion: 1,
		LibCaps: abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR}
	return c, nil
}

func (c *context) Data() (in, out []byte) { return abi.Bytes(&c.request), abi.Bytes(&c.answer) }

// Attach checks and stores the limits in the kernel's response, queries the other capabilities of
// the device, and maps the doorbell pages.
func (c *context) Attach() error {
	r := &c.answer
	if r.CqeVersion > 1 {
		return fmt.Errorf("verbs: %s: the kernel uses completions of version %d, which were not requested: %w", c.dev.Name(), r.CqeVersion, ucs.ErrUnsupported)
	}
	if r.MaxSqDescSz == 0 || r.MaxSendWqebb == 0 {
		return fmt.Errorf("verbs: %s: the kernel does not report the limits of queues, in a reply of %d bytes: %w", c.dev.Name(), r.ResponseLength, ucs.ErrUnsupported)
	}
	c.uidx = r.CqeVersion == 1
	c.limits = limits{sendEntry: int(r.MaxSqDescSz), recvEntry: int(r.MaxRqDescSz), sendBlocks: max16Bit(r.MaxSendWqebb),
		recvWR: max16Bit(r.MaxRecvWr), srqWR: max16Bit(r.MaxSrqRecvWr)}
	c.records.stride = 8
	if n := int(r.CacheLineSize); n > 8 && n <= arena.PageSize && n&(n-1) == 0 {
		c.records.stride = n
	}
	var caps abi.ExQueryDeviceResp
	if err := c.dev.Invoke(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
		abi.Bytes(&abi.ExQueryDevice{}), abi.Bytes(&caps)); err != nil {
		return err
	}
	c.caps = caps.Base
	return c.pages.open(c)
}

// max16Bit returns v, but at most 1<<16, because queue indices have 16 bits and no application has
// larger queues.
func max16Bit(v uint32) int { return int(min(v, 1<<16)) }

func (c *context) Detach() {
	c.pages.close(c)
	c.records.free()
}

// Lacks returns why the device lacks a feature, according to the capabilities that it reports.
func (c *context) Lacks(f provider.Feature) string {
	const windows2B = 1 << 24 // IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B, ib_user_verbs.h
	switch {
	case f == provider.FeatureResizeSRQ:
		return "the kernel's driver cannot change their size"
	case f == provider.FeatureAtomics && c.caps.AtomicCap == 0:
		return "the device has none, or returns results in the other byte order"
	case f == provider.FeatureMW && c.caps.DeviceCapFlags&windows2B == 0:
		return "the device has none of type 2B"
	case f == provider.FeatureSRQ && c.caps.MaxSrq == 0:
		return "the device has none"
	}
	return ""
}

// port has the properties of a port that determine the format of address vectors.
type port struct{ ethernet, global bool }

// port returns the properties of port num. It asks the kernel once for each port.
func (c *context) port(num uint8) (port, error) {
	if p, ok := c.links.Load(num); ok {
		return p.(port), nil
	}
	var r abi.QueryPortRespEx
	err := c.dev.Do(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT).
		Const(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64(num)).
		Out(abi.UVERBS_ATTR_QUERY_PORT_RESP, abi.Bytes(&r)))
	if err != nil {
		return port{}, err
	}
	const ethernet, needsGRH = 2, 1 // IB_LINK_LAYER_ETHERNET, IB_UVERBS_QPF_GRH_REQUIRED; ib_verbs.h, ib_user_ioctl_verbs.h
	p := port{r.LegacyResp.LinkLayer == ethernet, r.LegacyResp.Flags&needsGRH != 0}
	c.links.Store(num, p)
	return p, nil
}
