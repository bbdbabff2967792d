//go:build linux

package ib

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/events"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// Iface is the common part of the interfaces of all transports: port and path, completion
// queues and waiting for them, message handlers, endpoints that wait or have failed.
// Transports embed it. It belongs to the goroutine of its worker.
type Iface struct {
	uct.BasicNetworkIface

	Domain   *Domain
	Port     *Port
	Worker   *uct.Worker
	Handlers kit.Handlers
	Waiting  kit.Arbiter
	Failures kit.Failures
	Reporter kit.Reporter
	Settings *Settings

	SendCQ *verbs.CQ
	RecvCQ *verbs.CQ
	SRQ    *verbs.SRQ // nil if the transport needs none

	source       source
	pkey         verbs.PKey
	pkeyIndex    uint16
	mtu          verbs.MTU
	sl           uint8
	trafficClass uint8
	hopLimit     uint8
	pathFactor   int
	paths        int
	bits         []uint8 // low LID bits (path bits) of each path
	links        int     // links of the bond that packets are spread over; 1: no bond
	flowLabels   bool
	flid         bool
	global       bool
	reach        reachMode
	subnet       netip.Prefix
	devAddr      []byte

	channel *verbs.CompChannel
	send    completions
	recv    completions
	events  events.Box
	failed  error
}

// User is the transport that uses an Iface.
type User interface {
	// AsyncEvent is called with an event of the port, of the device, or of objects of the
	// interface. It runs inside progress. For an event that ends the interface it must call
	// Fail.
	AsyncEvent(e verbs.AsyncEvent)
}

// IfaceInit holds what Open needs besides the port and the worker.
type IfaceInit struct {
	User     User
	Params   uct.IfaceParams
	Settings *Settings
	SendCQE  int                // send completions that may be outstanding
	RecvCQE  int                // receive completions that may be outstanding
	SRQ      *verbs.SRQInitAttr // nil: none
}

// Open prepares a zero Iface: it chooses how the port is used and creates the queues that
// endpoints share. Afterwards the goroutines of other interfaces may read events of the
// device for this one. After an error nothing is left to close.
func (i *Iface) Open(p *Port, w *uct.Worker, init IfaceInit) (err error) {
	s := init.Settings
	if err := s.Check(); err != nil {
		return err
	}
	i.Domain, i.Port, i.Worker, i.Settings = p.Domain, p, w, s
	i.Handlers.Init(w.Log())
	i.Reporter = kit.Reporter{OnError: init.Params.OnError, Level: s.Common.Failure, Log: w.Log()}
	if err := i.place(s); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	ctx := p.Domain.ctx
	if i.channel, err = ctx.CreateCompChannel(); err != nil {
		return err
	}
	if err := w.Events().Add(i.channel.FD(), event.Read, channelEvents{i}); err != nil {
		return err
	}
	if i.SendCQ, err = ctx.CreateCQ(init.SendCQE, i.channel, 0); err != nil {
		return err
	}
	if i.RecvCQ, err = ctx.CreateCQ(init.RecvCQE, i.channel, 0); err != nil {
		return err
	}
	if init.SRQ != nil {
		if i.SRQ, err = p.Domain.pd.CreateSRQ(init.SRQ); err != nil {
			return err
		}
	}
	i.send.open(i.SendCQ, s.TxMaxPoll)
	i.recv.open(i.RecvCQ, s.RxMaxPoll)
	return i.events.Open(&p.Domain.events, w, i.concerned, init.User.AsyncEvent)
}

// place chooses the GID, the partition, the MTU and the other path parameters from the settings.
func (i *Iface) place(s *Settings) (err error) {
	p := i.Port
	allowed, err := parseSubnets(s.Subnets)
	if err != nil {
		return err
	}
	// The GID is of the kind that C UCX chooses, also toward 1.13.1. That version receives no
	// datagrams over IPv4 unless its UCX_UD_VERBS_ETH_DGID_CHECK is n. It uses an IPv4 GID
	// itself, and fails with GIDs of other kinds.
	if i.source, err = p.chooseGID(p.Domain.gidIndex, &allowed, s.FLIDRoute); err != nil {
		return err
	}
	if i.pkey = defaultPKey; !p.ethernet() {
		if i.pkey, i.pkeyIndex, err = p.choosePKey(p.Domain.pkeys(p.Num), int(s.PKey)); err != nil {
			return err
		}
	}
	i.mtu = verbs.MTU(s.PathMTU)
	if i.mtu == 0 {
		i.mtu = p.Attr.ActiveMTU
	}
	if i.mtu > p.Attr.MaxMTU {
		return fmt.Errorf("ib: UCX_IB_PATH_MTU is %v, the limit of %s is %v: %w", i.mtu, p.Name(), p.Attr.MaxMTU, ucs.ErrInvalidParam)
	}
	i.sl = uint8(s.SL.Int(0))
	i.hopLimit = uint8(s.HopLimit.Int(math.MaxUint8))
	i.trafficClass = uint8(s.TrafficClass.Int(int(i.defaultTrafficClass())))
	i.pathFactor = s.PathFactor.Int(1)
	if i.bits, err = pathBits(s.PathBits, p.Attr.LMC); err != nil {
		return err
	}
	i.links = p.links(i.source.IfIndex)
	i.paths = max(s.NumPaths.Int(i.defaultPaths()), 1)
	i.flowLabels = s.FlowLabels
	i.flid = s.FLIDRoute
	i.global = s.IsGlobal || s.AddrType.global() || p.Attr.Flags&grhRequired != 0 || i.source.isGlobal() ||
		p.Attr.LinkLayer == verbs.LinkUnspecified && p.Attr.LID == 0
	if i.reach = s.Reach; s.LocalSubnet {
		i.reach = reachSubnet
	}
	if i.reach == reachSubnet {
		bits := s.SubnetLength.Int(i.subnetLength())
		if s.SubnetLength == config.CountInf {
			bits = i.source.GID.Addr().BitLen()
		}
		if i.subnet, err = i.source.GID.Addr().Prefix(bits); err != nil {
			return fmt.Errorf("ib: UCX_IB_ROCE_SUBNET_PREFIX_LEN is %d for %v: %w", bits, i.source.GID.Addr(), ucs.ErrInvalidParam)
		}
	}
	a := i.address()
	i.devAddr = a.Append(nil)
	return nil
}

// grhRequired is the flag of a port that accepts only packets with a global route header
// (IBV_QPF_GRH_REQUIRED).
const grhRequired = 1 << 0

// isGlobal reports whether the GID is an InfiniBand GID that other subnets can reach.
func (s *source) isGlobal() bool {
	prefix := [8]byte(s.GID[:8])
	return s.Type == verbs.GIDInfiniBand && prefix != linkPrefix && [6]byte(prefix[:6]) != sitePrefix
}

// roceTrafficClass is the default traffic class of C UCX for RoCE v2, used if neither the
// settings nor the port give one (UCT_IB_DEFAULT_ROCEV2_DSCP).
const roceTrafficClass = 106

// defaultTrafficClass returns the traffic class to use if UCX_IB_TRAFFIC_CLASS is auto. With RoCE
// v2 it is the traffic class set for the port, as in C UCX 1.22, because the administrator's choice
// of lossless queues may depend on it, or roceTrafficClass if none is set. Otherwise it is 0.
func (i *Iface) defaultTrafficClass() uint8 {
	if !i.Port.ethernet() || i.source.version != RoCEv2 {
		return 0
	}
	if s, ok := i.Domain.source.(classed); ok {
		if class, ok := s.TrafficClass(&i.Domain.device, i.Port.Num); ok {
			return class
		}
	}
	return roceTrafficClass
}

// Counter returns a counter that the driver keeps of the port; ok is false if there is
// none.
func (i *Iface) Counter(name string) (n uint64, ok bool) {
	if s, is := i.Domain.source.(counted); is {
		return s.Counter(&i.Domain.device, i.Port.Num, name)
	}
	return 0, false
}

// speedNDR is the code of the lowest lane speed at which one connection does not fill the
// link.
const speedNDR = 128

// defaultPaths returns the number of connections to a peer without UCX_IB_NUM_PATHS
// (uct_ib_iface_set_num_paths).
func (i *Iface) defaultPaths() int {
	n := len(i.bits)
	if i.Port.ethernet() {
		n = min(i.links, maxPaths)
	}
	if n == 1 && i.Port.Attr.ActiveSpeed >= speedNDR {
		n = 2
	}
	return n
}

// subnetLength returns the prefix length, in bits, of the route to this interface's own
// address. If there is none, or the routes cannot be read, it returns the address length.
func (i *Iface) subnetLength() int {
	routes, err := i.Domain.routes()
	ip := i.source.GID.Addr()
	n := routes.Match(i.source.IfIndex, ip)
	if err != nil || n <= 0 {
		return ip.BitLen()
	}
	return n
}

// address returns the device address of the interface.
func (i *Iface) address() Address {
	a := Address{Ethernet: i.Port.ethernet(), GID: i.source.GID, MTU: i.mtu, PKey: i.pkey}
	if a.Ethernet {
		a.Version, a.IPv6 = i.source.version, i.source.ipv6()
	} else {
		a.LID, a.Global = i.Port.Attr.LID, i.global
	}
	return a
}

// DeviceAddress implements uct.Iface.
func (i *Iface) DeviceAddress() []byte { return i.devAddr }

// SetAMHandler implements uct.Iface.
func (i *Iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.Handlers.Set(id, h) }

// MTU returns the MTU of the interface.
func (i *Iface) MTU() verbs.MTU { return i.mtu }

// GID returns the GID that the interface sends with.
func (i *Iface) GID() verbs.GIDEntry { return i.source.GIDEntry }

// NumPaths returns the useful number of connections to a peer.
func (i *Iface) NumPaths() int { return i.paths }

// Init moves a queue pair to QPInit. access is the access that peers get to registered memory; qkey
// is the queue key of a queue pair for datagrams.
func (i *Iface) Init(qp *verbs.QP, access verbs.Access, qkey verbs.QKey) error {
	return qp.Init(&verbs.QPAttr{Port: uint8(i.Port.Num), PKeyIndex: i.pkeyIndex, Access: access, QKey: qkey})
}

// PCIPayload is the alignment in bytes of memory that devices read best (UCS_SYS_PCI_MAX_PAYLOAD).
const PCIPayload = 512

// NewAttr returns the interface attributes that are common to all transports. am holds the
// transport's limits on active messages.
func (i *Iface) NewAttr(transport string, am uct.AMLimits) uct.IfaceAttr {
	flags := uct.IfaceAMBcopy
	if am.MaxShort >= 8 {
		flags |= uct.IfaceAMShort
	}
	if am.MaxZcopyHdr > 0 && am.MaxIOV > 0 {
		flags |= uct.IfaceAMZcopy
	}
	am.OptZcopyAlign, am.AlignMTU = PCIPayload, i.mtu.Bytes()
	return uct.IfaceAttr{
		Resource:      i.Port.resource(transport),
		Flags:         flags | uct.IfacePending | uct.IfaceCBSync | uct.IfaceErrHandlePeerFail | uct.IfaceInterNode | uct.IfaceEpCheck,
		AM:            am,
		Events:        uct.EventSendComp | uct.EventRecv | uct.EventFD,
		DeviceAddrLen: len(i.devAddr),
		NumPaths:      i.paths,
		MaxEndpoints:  uct.Unlimited,
	}
}

// Close releases what Open made. The queue pairs of the interface must be closed before.
func (i *Iface) Close() (err error) {
	if i.Domain == nil {
		return nil
	}
	i.events.Close()
	if i.SRQ != nil {
		err = i.Domain.Closed(i.SRQ.Close())
	}
	if i.RecvCQ != nil {
		err = errors.Join(err, i.Domain.Closed(i.RecvCQ.Close()))
	}
	if i.SendCQ != nil {
		err = errors.Join(err, i.Domain.Closed(i.SendCQ.Close()))
	}
	if i.channel != nil {
		if fd := i.channel.FD(); fd >= 0 {
			i.Worker.Events().Remove(fd)
		}
		err = errors.Join(err, i.Domain.Closed(i.channel.Close()))
	}
	i.RecvCQ, i.SendCQ, i.SRQ, i.channel = nil, nil, nil, nil
	return err
}
