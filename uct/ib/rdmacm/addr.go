//go:build linux

package rdmacm

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/cmabi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Addr holds the addresses of an ID and the device, once one of the addresses has selected it.
type Addr struct {
	Src, Dst netip.AddrPort // not valid: not known yet; of a request, IPv6 without zone
	NodeGUID verbs.GUID     // of the device, 0 while there is none
	Index    int            // the kernel's number of the device, 0 from kernels before 5.7
	Port     int            // of the device
	PKey     verbs.PKey     // of IP over InfiniBand, 0 with RoCE
}

// QueryAddr returns the addresses and the device.
func (id *ID) QueryAddr() (Addr, error) {
	var r cmabi.QueryAddrResp
	req := cmabi.Query{Id: id.handle, Option: cmabi.RDMA_USER_CM_QUERY_ADDR}
	if err := id.do(cmabi.RDMA_USER_CM_CMD_QUERY, cmabi.Bytes(&req), cmabi.Bytes(&r)); err != nil {
		return Addr{}, err
	}
	return Addr{
		Src: getSockaddr(r.SrcAddr[:]), Dst: getSockaddr(r.DstAddr[:]), NodeGUID: verbs.GUID(bigEndian64(r.NodeGuid)),
		Index: int(r.IbdevIndex), Port: int(r.PortNum), PKey: verbs.PKey(bigEndian16(r.Pkey)),
	}, nil
}

// LocalAddr returns the address and port of this side.
func (id *ID) LocalAddr() (netip.AddrPort, error) {
	a, err := id.QueryAddr()
	return a.Src, err
}

// Path is a resolved path; a part of struct ibv_sa_path_rec.
type Path struct {
	SGID, DGID   verbs.GID
	SLID, DLID   verbs.LID
	SL           uint8
	PKey         verbs.PKey
	MTU          verbs.MTU
	FlowLabel    uint32
	HopLimit     uint8
	TrafficClass uint8
	Rate         uint8 // enum ib_rate
}

// QueryRoute returns the paths to the peer, none before they are resolved.
func (id *ID) QueryRoute() ([]Path, error) {
	var r cmabi.QueryRouteResp
	if err := id.do(cmabi.RDMA_USER_CM_CMD_QUERY_ROUTE, cmabi.Bytes(&cmabi.Query{Id: id.handle}), cmabi.Bytes(&r)); err != nil {
		return nil, err
	}
	list := make([]Path, min(int64(r.NumPaths), int64(len(r.IbRoute))))
	for i := range list {
		p := &r.IbRoute[i]
		list[i] = Path{
			SGID: p.Sgid, DGID: p.Dgid, SLID: verbs.LID(bigEndian16(p.Slid)), DLID: verbs.LID(bigEndian16(p.Dlid)), SL: p.Sl,
			PKey: verbs.PKey(bigEndian16(p.Pkey)), MTU: verbs.MTU(p.Mtu), FlowLabel: bigEndian32(p.FlowLabel),
			HopLimit: p.HopLimit, TrafficClass: p.TrafficClass, Rate: p.Rate,
		}
	}
	return list, nil
}

// FindDevice returns the device of a from a list of verbs.Devices. If several devices have
// its GUID, like soft-RoCE devices on interfaces with one hardware address, it is the one
// with the local address.
func (a *Addr) FindDevice(list []verbs.Device) (*verbs.Device, error) {
	var found *verbs.Device
	for i := range list {
		d := &list[i]
		if d.NodeGUID != a.NodeGUID || a.NodeGUID == 0 {
			continue
		}
		if found == nil || a.isAt(d) {
			found = d
		}
	}
	if found == nil {
		return nil, fmt.Errorf("rdmacm: no device has the GUID %v: %w", a.NodeGUID, ucs.ErrNoDevice)
	}
	return found, nil
}

// isAt reports whether the local address is a GID of port a.Port of the device.
func (a *Addr) isAt(d *verbs.Device) bool {
	if !a.Src.IsValid() {
		return false
	}
	gid := verbs.GIDFromAddr(a.Src.Addr().WithZone(""))
	for _, p := range d.Ports {
		for _, g := range p.GIDs {
			if p.Num == a.Port && g.GID == gid {
				return true
			}
		}
	}
	return false
}

// certain reports whether d, which FindDevice has chosen, must be the device. RoCE
// devices may share a GUID, and may have got the local address after d was listed.
func (a *Addr) certain(d *verbs.Device) bool {
	for _, p := range d.Ports {
		if p.Num == a.Port && p.LinkLayer == verbs.LinkEthernet && d.NodeType != verbs.NodeRNIC {
			return a.isAt(d)
		}
	}
	return true
}

// Contexts opens each device once, for all connections over it. The zero value has no open
// devices. Any goroutine may use it. After EventDeviceRemoval use another one, because a device
// that returns may have the name of the removed one.
type Contexts struct {
	// Devices is the result of verbs.Devices, which takes a while. The list is read again
	// if no device in it has the local address.
	Devices []verbs.Device

	mu   sync.Mutex                // guards Devices too, once Open is called
	open map[string]*verbs.Context // under mu: by the name of the node
}

// Open returns the device of a, which it opens if it is not open. The Contexts keeps ownership.
func (c *Contexts) Open(a Addr) (*verbs.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, err := a.FindDevice(c.Devices)
	if err != nil || !a.certain(d) {
		if c.Devices, err = verbs.Devices(""); err != nil {
			return nil, err
		}
		if d, err = a.FindDevice(c.Devices); err != nil {
			return nil, err
		}
	}
	if ctx := c.open[d.Uverbs]; ctx != nil {
		return ctx, nil
	}
	ctx, err := d.Open()
	if err != nil {
		return nil, err
	}
	if c.open == nil {
		c.open = make(map[string]*verbs.Context)
	}
	c.open[d.Uverbs] = ctx
	return ctx, nil
}

// Close closes the devices and all their objects.
func (c *Contexts) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first error
	for _, ctx := range c.open {
		if err := ctx.Close(); err != nil && first == nil {
			first = err
		}
	}
	c.open = nil
	return first
}

// Conversions of the kernel's big-endian numbers, as loaded in native byte order.

func bigEndian16(v uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, v))
}

func bigEndian32(v uint32) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, v))
}

func bigEndian64(v uint64) uint64 {
	return binary.BigEndian.Uint64(binary.NativeEndian.AppendUint64(nil, v))
}
