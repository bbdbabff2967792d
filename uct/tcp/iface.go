//go:build linux

package tcp

import (
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// iface is one device opened on one worker, with its own listening socket. It belongs to the
// worker's goroutine.
type iface struct {
	uct.BasicNetworkIface

	md     *domain
	svc    *service
	opts   options
	bounds bounds
	attr   uct.IfaceAttr

	dev       deviceAddr
	devAddr   []byte
	addr      sockaddr // address of the listener
	ifaceAddr []byte
	index     int                              // index of the device
	mainIface *iface                           // main iface of the device; nil: this one
	others    map[netip.Addr]*iface            // ifaces for other addresses of the device
	second    netip.Addr                       // an address of the device of the other family; invalid: none
	at        func(netip.Addr) (*iface, error) // openAt, which endpoints call through this field

	handlers kit.Handlers
	reporter kit.Reporter

	listener listener
	accept   func(uct.SourceInfo) bool // the application's policy; nil: accept all
	match    matchTable
	keys     map[uint64]*endpoint // endpoints that wait for ConnectToEP

	conns      *conn // head of the list of connections
	endpoints  map[*endpoint]struct{}
	handshakes sync.WaitGroup
	refusals   int           // TLS handshakes that failed
	maxFrame   int           // largest frame built in a buffer, in bytes
	maxRxFrame int           // largest frame accepted, in bytes
	maxLarge   int           // receive buffers in use before partial frames move to smaller ones
	silence    time.Duration // time after which a silent peer's machine counts as gone; 0: never
	txPool     *pool
	rxPool     *pool

	cannotBind error // why EP_BIND_SRC_ADDR=y cannot be satisfied; nil: it can
	closed     bool
}

var _ interface {
	uct.Iface
	uct.NetworkIface
} = (*iface)(nil)

// Smallest sizes of buffers, in bytes: room for a batch of small messages, and for one read. Larger
// settings make buffers larger, so that a largest frame fits.
const (
	txBufferSize = 64 << 10
	rxBufferSize = 128 << 10
)

// minRxSeg is the length in bytes of a message that every peer may send, whatever this side's
// settings are (RX_SEG_SIZE's default in both C releases).
const minRxSeg = 64 << 10

func openIface(m *domain, w *uct.Worker, p uct.IfaceParams, o options, d *netdev) (uct.Iface, error) {
	svc, err := openService(w)
	if err != nil {
		return nil, err
	}
	svc.forOwn = svc.yield
	i := &iface{
		md:        m,
		svc:       svc,
		opts:      o,
		bounds:    limits.fitting(),
		dev:       localDeviceAddr(d.addr),
		index:     d.index,
		second:    d.other,
		match:     newMatchTable(),
		keys:      make(map[uint64]*endpoint),
		accept:    p.Accept,
		endpoints: make(map[*endpoint]struct{}),
	}
	if m.tls != nil {
		i.opts = o.sealed()
		if err := svc.openNotifier(); err != nil {
			return nil, err
		}
	}
	o = i.opts
	i.handlers.Init(w.Log())
	i.reporter = kit.Reporter{OnError: p.OnError, Level: o.failure, Log: w.Log()}
	if o.keep.enabled {
		i.silence = o.keep.total()
	}
	i.maxFrame = hdrLen + max(o.txSeg, o.maxHdr, putReqLen)
	i.maxRxFrame = hdrLen + max(o.rxSeg, minRxSeg)
	i.bounds = i.bounds.forFrames(o.rxSeg)
	i.txPool = poolOf(svc.txPools, max(txBufferSize, i.maxFrame+maxControl))
	i.rxPool = poolOf(svc.rxPools, max(rxBufferSize, i.maxRxFrame+hdrLen))
	i.maxLarge = mostLarge(i.rxPool.size)
	if o.bindSource == config.Yes && !d.addr.Is6() && sysfs.strictReverseFilter(d.name) {
		i.cannotBind = fmt.Errorf("tcp: UCX_TCP_EP_BIND_SRC_ADDR=y, but net.ipv4.conf.%s.rp_filter is 1, which drops such traffic; set it to 0 or 2: %w",
			d.name, ucs.ErrInvalidParam)
	}
	if err := svc.watchSlow(i.bounds.stall); err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	d.querySpeed()
	i.addr = makeSockaddr(d.addr, 0)
	if err := i.listen(d.name); err != nil {
		return nil, err
	}
	i.publish()
	i.attr = i.describe(d)
	i.at = i.openAt
	return i, nil
}

// describe returns the attributes of the iface, on device d (uct_tcp_iface_query).
func (i *iface) describe(d *netdev) uct.IfaceAttr {
	o := &i.opts
	a := uct.IfaceAttr{
		Resource: d.resource(i.md.attr.Name),
		Flags: uct.IfaceConnectToIface | uct.IfaceConnectToEP | uct.IfaceAMShort | uct.IfaceAMBcopy |
			uct.IfacePending | uct.IfaceCBSync | uct.IfaceEpCheck | uct.IfaceErrHandlePeerFail |
			uct.IfaceInterNode | uct.IfacePutAMOrder,
		Events: uct.EventSendComp | uct.EventRecv | uct.EventFD,
		AM: uct.AMLimits{
			MaxShort: o.txSeg,
			MaxBcopy: o.txSeg,
		},
		DeviceAddrLen: len(i.devAddr),
		IfaceAddrLen:  ifaceAddrLen,
		EpAddrLen:     epAddrLen,
		MaxEndpoints:  o.maxNumEPs,
		NumPaths:      1,
		Batches:       true,
		Perf:          d.perf(o),
	}
	if i.md.tls != nil {
		a.Perf = sealedPerf(a.Perf)
		a.Flags &^= uct.IfaceConnectToEP
		a.EpAddrLen = 0
	}
	if o.keep.enabled {
		a.Flags |= uct.IfaceEpKeepalive
	}
	if o.maxIOV > 0 {
		a.Flags |= uct.IfaceAMZcopy
		a.AM.MaxIOV = o.maxIOV
		a.AM.MaxZcopy = o.rxSeg
		a.AM.MaxZcopyHdr = o.maxHdr
		a.AM.OptZcopyAlign = 1
		if o.putEnable {
			a.Flags |= uct.IfacePutZcopy
			a.Put.MaxIOV = o.maxIOV
			a.Put.MaxZcopy = maxPut
			a.Put.OptZcopyAlign = 1
		}
	}
	return a
}

// maxPut is the length of the largest put. C UCX offers 2^64-26, more than a slice can hold.
const maxPut = math.MaxInt - hdrLen - putReqLen

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// DeviceAddress implements uct.Iface.
func (i *iface) DeviceAddress() []byte { return i.devAddr }

// Address implements uct.Iface.
func (i *iface) Address() []byte { return i.ifaceAddr }

// Reachable implements uct.Iface (uct_tcp_iface_is_reachable_v2): a loopback device reaches
// loopback devices in the same network namespace; any other peer is reachable if this device has a
// route to it and no other device has a closer one.
func (i *iface) Reachable(p uct.ReachableParams) error { return i.reachableFrom(&i.dev, p) }

// reachableFrom is Reachable from the given address of the device.
func (i *iface) reachableFrom(dev *deviceAddr, p uct.ReachableParams) error {
	d, err := parseDeviceAddr(p.DeviceAddr)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	switch {
	case d.v6 != dev.v6:
		return fmt.Errorf("tcp: %s has no address of that family, %s; with UCX_TCP_AF_DUAL=y the peer publishes both of its addresses: %w",
			i.attr.Resource.Device, familyName(d.v6), ucs.ErrUnreachable)
	case d.loopback != dev.loopback:
		return fmt.Errorf("tcp: only loopback devices reach loopback devices: %w", ucs.ErrUnreachable)
	case d.loopback && !d.sameNode(dev):
		return fmt.Errorf("tcp: loopback of another machine or network namespace: %w", ucs.ErrUnreachable)
	case d.loopback:
		return nil
	}
	routes := i.md.routes()
	if !routes.Best(i.index, d.ip) {
		return fmt.Errorf("tcp: %s has no route to %v, or another device has a closer one: %w",
			i.attr.Resource.Device, d.ip, ucs.ErrUnreachable)
	}
	return nil
}

// SetAMHandler implements uct.Iface.
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error {
	for _, o := range i.others {
		if err := o.handlers.Set(id, h); err != nil {
			return err
		}
	}
	return i.handlers.Set(id, h)
}

// addEndpoint adds an endpoint to those in use; removeEndpoint removes it.
func (i *iface) addEndpoint(ep *endpoint) { i.endpoints[ep] = struct{}{} }

func (i *iface) removeEndpoint(ep *endpoint) {
	delete(i.endpoints, ep)
	i.removeKey(ep)
	if ep.numbers != nil {
		i.match.numbers.drop(ep.numbers)
		ep.numbers = nil
	}
	if ep.answersOnly {
		i.returned(ep)
	}
}

// Close implements uct.Iface.
func (i *iface) Close() error {
	if i.closed {
		return nil
	}
	i.closed = true
	for _, o := range i.others {
		o.Close()
	}
	for ep := range i.endpoints {
		ep.pending.Purge(func(*uct.Pending) {})
		ep.Close()
	}
	i.listener.close()
	for i.conns != nil {
		i.conns.close()
	}
	i.handshakes.Wait()
	return nil
}
