//go:build linux

package ib

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// domainSettings are read when a device is opened (uct_ib_md_config_table). The settings of C
// UCX for its registration cache, for GPU memory and for mlx5's own objects are left out, and
// so is DEVICE_SPECS, which describes devices that C UCX does not know.
type domainSettings struct {
	RegOverhead config.Time    `ucx:"MEM_REG_OVERHEAD" default:"16us" doc:"Time that registering memory is assumed to take, whatever its size."`
	AsyncEvents bool           `ucx:"ASYNC_EVENTS" default:"y" doc:"Handle asynchronous events of devices: of ports, of queue pairs and of device removal."`
	GIDIndex    config.Count   `ucx:"GID_INDEX" default:"auto" doc:"Entry of a port's GID table to use; auto prefers RoCE v2 and IPv4."`
	Subnet      subnetPrefix   `ucx:"SUBNET_PREFIX" default:"" doc:"InfiniBand: subnet whose ports are used, for example fe80:0:0:0; empty means all."`
	Ordering    config.Ternary `ucx:"PCI_RELAXED_ORDERING" default:"auto" doc:"Let PCI reorder what devices write to memory."`
}

func init() {
	config.Register(config.Section{
		Name: domainSection, Prefix: "IB_", Title: "IB memory domain",
		New: func() any { return new(domainSettings) },
	})
}

const domainSection = "ib memory domain"

// Settings are the settings that the interfaces of all transports share
// (uct_ib_iface_config_table). A transport's settings contain them as a group with the
// prefix IB_. Settings whose default differs between transports belong to the transports:
// SEG_SIZE, RX_QUEUE_LEN. These settings of C are left out:
//   - TX_MAX_BATCH, which has no effect in C;
//   - those that only mlx5's own transports use: TX_INLINE_RESP, RX_INLINE,
//     COUNTER_SET_ID, and REVERSE_SL, for the answers of DC;
//   - those for the growth of memory pools: TX_BUFS_GROW and similar ones, and
//     RX_MAX_BATCH. Pools here grow with the traffic (recvpool.go), and post spare
//     buffers as soon as a call is worth it;
//   - SEND_OVERHEAD, the overheads of the parts of a request in C's cost model. The cost
//     model here has one overhead for the whole request, as peers publish it (perf.go).
type Settings struct {
	Common       CommonSettings `prefix:""`
	TxQueueLen   config.Count   `ucx:"TX_QUEUE_LEN" default:"256" doc:"Length of the send queue."`
	TxMaxPoll    config.Count   `ucx:"TX_MAX_POLL" default:"16" doc:"Largest number of send completions to take at once; inf and all values above 4096 mean 4096."`
	TxMinInline  config.Bytes   `ucx:"TX_MIN_INLINE" default:"64" doc:"Smallest number of bytes that can be sent inline in a request."`
	TxMinSGE     config.Count   `ucx:"TX_MIN_SGE" default:"5" doc:"Smallest number of memory pieces in a request."`
	TxMaxBufs    config.Count   `ucx:"TX_MAX_BUFS" default:"auto" doc:"Largest number of buffers for copied messages; auto means as many as can be pinned."`
	RxMaxBufs    config.Count   `ucx:"RX_MAX_BUFS" default:"auto" doc:"Largest number of receive buffers; auto means the length of the receive queue plus half of it for buffers that are kept."`
	RxMaxPoll    config.Count   `ucx:"RX_MAX_POLL" default:"16" doc:"Largest number of messages to receive at once; inf and all values above 4096 mean 4096."`
	AddrType     addrType       `ucx:"ADDR_TYPE" default:"auto" doc:"Deprecated: ib_site_local and ib_global mean UCX_IB_IS_GLOBAL=y; other values have no effect."`
	IsGlobal     bool           `ucx:"IS_GLOBAL" default:"n" doc:"Use global routes also within an InfiniBand subnet."`
	FLIDRoute    bool           `ucx:"FLID_ROUTE" default:"y" doc:"Reach ports in other subnets of an InfiniBand site by the router LID (FLID) in their GID."`
	SL           config.Count   `ucx:"SL" default:"auto" doc:"InfiniBand: service level."`
	TrafficClass config.Count   `ucx:"TRAFFIC_CLASS" default:"auto" doc:"Traffic class of packets with a global route; auto is, with RoCE v2, the administrator's setting for the port or 106, and otherwise 0."`
	HopLimit     config.Count   `ucx:"HOP_LIMIT" default:"255" doc:"Routers that packets with a global route may pass."`
	NumPaths     config.Count   `ucx:"NUM_PATHS" default:"auto" doc:"Number of connections to each peer; auto is, with RoCE, one for each link of a bond in mode 802.3ad, and with InfiniBand one for each of UCX_IB_LID_PATH_BITS; from NDR on at least 2."`
	PathBits     []pathRange    `ucx:"LID_PATH_BITS" default:"0" doc:"InfiniBand: low LID bits that paths use, for example 0,2-3; a port uses those that its LMC permits."`
	LocalSubnet  bool           `ucx:"ROCE_LOCAL_SUBNET" default:"n" doc:"Deprecated: y means UCX_IB_ROCE_REACHABILITY_MODE=local_subnet."`
	Subnets      config.List    `ucx:"ROCE_SUBNETS" default:"all" doc:"Subnets whose GIDs may be used, for example 10.1.0.0/16; after ^, subnets whose GIDs must not be used. Excludes UCX_IB_GID_INDEX."`
	Reach        reachMode      `ucx:"ROCE_REACHABILITY_MODE" default:"route" doc:"RoCE addresses that count as reachable: those that routes lead to, those of the local subnet, or all."`
	PathFactor   config.Count   `ucx:"ROCE_PATH_FACTOR" default:"1" doc:"Factor of the path number in the UDP source port of RoCE v2."`
	FlowLabels   bool           `ucx:"ROCE_FLOW_LABELS" default:"y" doc:"Give each connection its own flow label, so that connections are spread over several routes (ECMP); with n all have the same label, as in C UCX, which has no such setting."`
	PKey         pkeySetting    `ucx:"PKEY" default:"auto" doc:"Partition to use, 0x0 to 0x7fff; auto is the first that the port is a full member of."`
	PathMTU      mtuSetting     `ucx:"PATH_MTU" default:"default" doc:"Largest packet: 256, 512, 1024, 2048, 4096, or default, which is that of the port. With RoCE both ends should have the same."`
	SubnetLength config.Count   `ucx:"ROCE_SUBNET_PREFIX_LEN" default:"auto" doc:"Prefix length of the local subnet in bits; auto is that of the device's address, inf means all bits."`
}

// CommonSettings are the settings that all transports have with the same default
// (uct_iface_config_table).
type CommonSettings struct {
	Failure log.Level `ucx:"FAILURE" default:"DIAG" doc:"Log level of failures of endpoints over RDMA without an error handler."`
}

// reachMode says which addresses of RoCE count as reachable (uct_ib_reachability_modes).
type reachMode uint8

const (
	reachRoute reachMode = iota
	reachSubnet
	reachAll
)

var reachModes = []string{"route", "local_subnet", "all"}

// ParseConfig implements config.Value.
func (m *reachMode) ParseConfig(s string) error {
	i, err := config.ParseEnum(s, reachModes)
	*m = reachMode(i)
	return err
}

// String implements config.Value.
func (m reachMode) String() string { return reachModes[m] }

// ConfigSyntax implements config.Syntaxer.
func (reachMode) ConfigSyntax() string { return config.EnumSyntax(reachModes) }

// addrType is the deprecated setting of the address type (uct_ib_iface_addr_types).
type addrType uint8

var addrTypes = []string{"ib_local", "ib_site_local", "ib_global", "eth", "auto"}

// global reports whether the address type asks for global routes.
func (a addrType) global() bool { return a == 1 || a == 2 }

// ParseConfig implements config.Value.
func (a *addrType) ParseConfig(s string) error {
	i, err := config.ParseEnum(s, addrTypes)
	*a = addrType(i)
	return err
}

// String implements config.Value.
func (a addrType) String() string { return addrTypes[a] }

// ConfigSyntax implements config.Syntaxer.
func (addrType) ConfigSyntax() string { return config.EnumSyntax(addrTypes) }

// subnetPrefix is a subnet prefix of InfiniBand GIDs. If the field set is false, all subnets match.
type subnetPrefix struct {
	prefix [8]byte
	set    bool
}

// ParseConfig implements config.Value (uct_ib_md_parse_subnet_prefix).
func (p *subnetPrefix) ParseConfig(s string) error {
	*p = subnetPrefix{}
	if s == "" {
		return nil
	}
	groups := strings.Split(s, ":")
	if len(groups) != 4 {
		return errors.New("not a subnet prefix")
	}
	for k, g := range groups {
		n, err := strconv.ParseUint(g, 16, 16)
		if err != nil {
			return errors.New("not a subnet prefix")
		}
		binary.BigEndian.PutUint16(p.prefix[2*k:], uint16(n))
	}
	p.set = true
	return nil
}

// String implements config.Value.
func (p subnetPrefix) String() string {
	if !p.set {
		return ""
	}
	b := p.prefix
	return fmt.Sprintf("%x:%x:%x:%x", b[:2], b[2:4], b[4:6], b[6:])
}

// ConfigSyntax implements config.Syntaxer.
func (subnetPrefix) ConfigSyntax() string {
	return "four groups of hexadecimal digits, as fe80:0:0:0"
}

// pkeySetting is a partition, without the bit of full membership; -1 is auto.
type pkeySetting int

// ParseConfig implements config.Value.
func (p *pkeySetting) ParseConfig(s string) error {
	if strings.EqualFold(s, "auto") {
		*p = -1
		return nil
	}
	n, err := strconv.ParseUint(s, 0, 16)
	if err != nil || n > partitionMask {
		return fmt.Errorf("expected 0x0 to %#x, or auto", partitionMask)
	}
	*p = pkeySetting(n)
	return nil
}

// String implements config.Value.
func (p pkeySetting) String() string {
	if p < 0 {
		return "auto"
	}
	return fmt.Sprintf("%#x", int(p))
}

// ConfigSyntax implements config.Syntaxer.
func (pkeySetting) ConfigSyntax() string { return "hex representation of a number or auto" }

// mtuSetting is an MTU; 0 stands for the MTU of the port.
type mtuSetting verbs.MTU

var mtuNames = []string{"default", "256", "512", "1024", "2048", "4096"}

// ParseConfig implements config.Value.
func (m *mtuSetting) ParseConfig(s string) error {
	i, err := config.ParseEnum(s, mtuNames)
	*m = mtuSetting(i)
	return err
}

// String implements config.Value.
func (m mtuSetting) String() string { return mtuNames[m] }

// ConfigSyntax implements config.Syntaxer.
func (mtuSetting) ConfigSyntax() string { return config.EnumSyntax(mtuNames) }

// subnets decides which RoCE addresses may be used.
type subnets struct {
	list []netip.Prefix
	mode config.ListMode
}

func parseSubnets(l config.List) (subnets, error) {
	s := subnets{mode: l.Mode}
	for _, item := range l.Items {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return s, fmt.Errorf("ib: UCX_IB_ROCE_SUBNETS names %q, expected an address with the length of a prefix: %w", item, ucs.ErrInvalidParam)
		}
		s.list = append(s.list, p)
	}
	return s, nil
}

// allow reports whether an address may be used.
func (s *subnets) allow(a netip.Addr) bool {
	if s.mode == config.ListAll {
		return true
	}
	for _, p := range s.list {
		if p.Contains(a) {
			return s.mode == config.ListAllow
		}
	}
	return s.mode != config.ListAllow
}

// Check refuses values that are out of range or that cannot be parsed.
func (s *Settings) Check() error {
	if _, err := parseSubnets(s.Subnets); err != nil {
		return err
	}
	for _, c := range []struct {
		name  string
		value config.Count
		most  int
	}{
		{"SL", s.SL, 15}, {"TRAFFIC_CLASS", s.TrafficClass, math.MaxUint8}, {"HOP_LIMIT", s.HopLimit, math.MaxUint8},
		{"NUM_PATHS", s.NumPaths, maxPaths}, {"TX_QUEUE_LEN", s.TxQueueLen, 1 << 15}, {"ROCE_PATH_FACTOR", s.PathFactor, 1 << 12},
		{"ROCE_SUBNET_PREFIX_LEN", s.SubnetLength, 128},
	} {
		if c.value == config.CountInf && c.name == "ROCE_SUBNET_PREFIX_LEN" {
			continue
		}
		if !c.value.IsAuto() && c.value.Int(0) > c.most {
			return fmt.Errorf("ib: UCX_IB_%s is %v, the limit is %d: %w", c.name, c.value, c.most, ucs.ErrInvalidParam)
		}
	}
	for _, c := range []struct {
		name  string
		value config.Count
		least int
	}{{"TX_QUEUE_LEN", s.TxQueueLen, 2}, {"TX_MAX_POLL", s.TxMaxPoll, 1}, {"RX_MAX_POLL", s.RxMaxPoll, 1}} {
		if c.value.Int(defaultPoll) < c.least {
			return fmt.Errorf("ib: UCX_IB_%s is %v, expected %d at least: %w", c.name, c.value, c.least, ucs.ErrInvalidParam)
		}
	}
	return nil
}

// maxPaths is the largest useful number of connections to a peer.
const maxPaths = 128
