//go:build linux

package mlx5

import (
	"fmt"
	"os"
	"sync"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

func init() {
	provider.Register(&provider.Provider{Name: "mlx5", ID: abi.RDMA_DRIVER_MLX5,
		MinABI: abi.MLX5_IB_UVERBS_ABI_VERSION, MaxABI: abi.MLX5_IB_UVERBS_ABI_VERSION, Open: open})
}

// blueFlameEnv is the environment variable that turns BlueFlame on. It has a name of
// its own: libmlx5's MLX5_SHUT_UP_BF turns off what is on there.
const blueFlameEnv = "VERBS_BLUEFLAME"

// blueFlame reports whether single short entries may be written into the adapter's
// registers. That it works depends on the registers being mapped so that writes combine,
// which no program can tell; a bell alone is always right.
func blueFlame() bool { return os.Getenv(blueFlameEnv) == "1" }

// context is an open device.
type context struct {
	dev     provider.Device
	request abi.Mlx5AllocUcontextReqV2
	answer  abi.Mlx5AllocUcontextResp
	limits  limits
	caps    abi.QueryDeviceResp
	uidx    bool // completions name queue pairs by our numbers, not by theirs: version 1
	pages   pages
	records records

	// Who completions may be about, by the numbers that they name.
	qps  table[qp]
	srqs table[srq] // by the kernel's numbers

	// mu is held while these change, and the locks of completion queues after it.
	mu      sync.Mutex
	numbers numbers // under mu: of queue pairs

	links sync.Map // of link by the number of a port
}

func open(d provider.Device) (provider.Context, error) {
	c := &context{dev: d}
	all, own := registers()
	c.request = abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: all, NumLowLatencyBfregs: own, MaxCqeVersion: 1,
		LibCaps: abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR}
	return c, nil
}

func (c *context) Data() (in, out []byte) { return abi.Bytes(&c.request), abi.Bytes(&c.answer) }

// Attach takes what the kernel has answered, asks what else the device can do, and maps
// the doorbell pages.
func (c *context) Attach() error {
	r := &c.answer
	if r.CqeVersion > 1 {
		return fmt.Errorf("verbs: %s: completions of version %d, which were not requested: %w", c.dev.Name(), r.CqeVersion, ucs.ErrUnsupported)
	}
	if r.MaxSqDescSz == 0 || r.MaxSendWqebb == 0 {
		return fmt.Errorf("verbs: %s: the kernel does not say how large queues may be, in %d bytes of an answer: %w", c.dev.Name(), r.ResponseLength, ucs.ErrUnsupported)
	}
	c.uidx = r.CqeVersion == 1
	c.limits = limits{sendEntry: int(r.MaxSqDescSz), recvEntry: int(r.MaxRqDescSz), sendBlocks: clip(r.MaxSendWqebb),
		recvWR: clip(r.MaxRecvWr), srqWR: clip(r.MaxSrqRecvWr)}
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

// clip is a limit as far as it counts: indices have 16 bits, and nobody has queues of
// more than that.
func clip(v uint32) int { return int(min(v, 1<<16)) }

func (c *context) Detach() {
	c.pages.close(c)
	c.records.free()
}

// Lacks goes by what the device says of itself.
func (c *context) Lacks(f provider.Feature) string {
	const windows2B = 1 << 24 // IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B, ib_user_verbs.h
	switch {
	case f == provider.FeatureResizeSRQ:
		return "the kernel's driver does not change their size"
	case f == provider.FeatureAtomics && c.caps.AtomicCap == 0:
		return "the device has none, or answers them in another byte order"
	case f == provider.FeatureMW && c.caps.DeviceCapFlags&windows2B == 0:
		return "the device has none of type 2B"
	case f == provider.FeatureSRQ && c.caps.MaxSrq == 0:
		return "the device has none"
	}
	return ""
}

// port is what has to be known of one for an address.
type port struct{ ethernet, global bool }

// port asks the kernel once for each.
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
