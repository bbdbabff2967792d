package proto

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// AddressVersion is the layout of a packed address (UCX_ADDRESS_VERSION).
type AddressVersion uint8

// Layouts. The numbers are those on the wire.
const (
	AddressV1 AddressVersion = 0
	AddressV2 AddressVersion = 1
)

// String returns the name UCX_ADDRESS_VERSION takes.
func (v AddressVersion) String() string { return fmt.Sprintf("v%d", uint8(v)+1) }

// AddressFlags select the optional parts in front of the devices. The bits are those of the
// packed header.
type AddressFlags uint8

// Address flags.
const (
	AddressHasName     AddressFlags = 1 << 0 // UCX_ADDRESS_DEBUG_INFO was on
	AddressHasUUID     AddressFlags = 1 << 1
	AddressHasClientID AddressFlags = 1 << 2
	AddressAMOnly      AddressFlags = 1 << 3 // trimmed to the AM lane
)

// AddressForm is the kind of message that contains an address. The bytes do not tell the
// form: both sides know it.
type AddressForm uint8

// Parts of a form.
const (
	FormUUID     AddressForm = 1 << 0 // has a uuid even if an old header does not say so
	FormName     AddressForm = 1 << 1 // has the worker's name if the header says so
	FormRscIndex AddressForm = 1 << 2 // a resource index behind the attributes of each interface
)

// Forms of the messages there are.
const (
	FormWorker = FormUUID | FormName
	FormWireup = FormUUID | FormName | FormRscIndex

	// FormCM is the private data of a connection as 1.13.1 sends it, and 1.22.0 with
	// UCX_CM_USE_ALL_DEVICES=n; FormCMRsc is that of 1.22.0 with UCX_CM_USE_ALL_DEVICES=y.
	FormCM    AddressForm = 0
	FormCMRsc AddressForm = FormRscIndex

	// FormCMBoth is private data that readers of both forms can read, with or without
	// resource indices. It is only packed (AddressIface.append).
	FormCMBoth AddressForm = 1 << 3
)

// WorkerAddress is a packed address: ucp_unpacked_address_t and the layout of
// src/ucp/wireup/address.c. Worker addresses, wireup messages and connection data have the
// same format.
type WorkerAddress struct {
	Version  AddressVersion
	Flags    AddressFlags
	UUID     uint64 // identifies the worker; its order breaks ties
	ClientID uint64
	Name     string

	// Release is the minor release that the sender announces: 22 for 1.22. 0 means none:
	// 1.15 or older, or an implementation that promises nothing. v1 announces it in a
	// trailer behind the devices.
	Release int

	Devices []AddressDevice

	// Token is the sender's token, nil if it has none. On the wire it looks like a device
	// with a transport that C does not know.
	Token *Token
}

// AddressDevice is one device of a worker and the transports on it.
type AddressDevice struct {
	MD uint8 // the sender's index of the memory domain, the bit in key maps

	// MDCaps are the two capability bits that releases up to 1.18 pack above the index
	// (0x40 alloc, 0x20 register). No release reads them.
	MDCaps uint8

	NumPaths uint8  // parallel paths, at least 1
	SysDev   uint8  // SysDevUnknown if not announced
	Addr     []byte // the transport's
	Ifaces   []AddressIface
}

// AddressIface is one transport on a device.
type AddressIface struct {
	Transport TransportID
	Attr      IfaceAttr
	RscIndex  uint8 // the sender's resource; meaningful in FormRscIndex
	Addr      []byte
	EpAddrs   []AddressEp
}

// PackedBoth reports whether an interface address of n bytes was packed in FormCMBoth and
// read without resource indices: it then begins with the length that other readers use.
func (f *AddressIface) PackedBoth(n int) bool {
	return len(f.Addr) == n+1 && int(f.Addr[0]&maskIfaceLen) == n
}

// AddressEp is an endpoint that waits to be connected pairwise.
type AddressEp struct {
	Lane uint8 // in a request the sender's lane, in a reply the receiver's
	Addr []byte
}

// Entry returns a transport and its device by its position in the list, nil if there is
// none.
func (a *WorkerAddress) Entry(index int) (*AddressDevice, *AddressIface) {
	if index < 0 {
		return nil, nil
	}
	for k := range a.Devices {
		d := &a.Devices[k]
		if index < len(d.Ifaces) {
			return d, &d.Ifaces[index]
		}
		index -= len(d.Ifaces)
	}
	return nil, nil
}

// index is the position of one of the address's transports.
func (a *WorkerAddress) index(f *AddressIface) (index int) {
	a.Ifaces(func(n int, _ *AddressDevice, i *AddressIface) bool {
		index = n
		return i != f
	})
	return index
}

// Ifaces calls yield for each transport in order with its position in the
// list, which is the address index of UCP's lane configuration.
func (a *WorkerAddress) Ifaces(yield func(index int, d *AddressDevice, i *AddressIface) bool) {
	n := 0
	for d := range a.Devices {
		dev := &a.Devices[d]
		for i := range dev.Ifaces {
			if !yield(n, dev, &dev.Ifaces[i]) {
				return
			}
			n++
		}
	}
}

// NumIfaces returns the number of transports in the address.
func (a *WorkerAddress) NumIfaces() int {
	n := 0
	for i := range a.Devices {
		n += len(a.Devices[i].Ifaces)
	}
	return n
}

// Clone returns a copy that shares no memory with a, nor with the bytes that a was parsed
// from.
func (a *WorkerAddress) Clone() *WorkerAddress {
	c := *a
	if a.Token != nil {
		token := *a.Token
		c.Token = &token
	}
	c.Devices = slices.Clone(a.Devices)
	for d := range c.Devices {
		dev := &c.Devices[d]
		dev.Addr = bytes.Clone(dev.Addr)
		dev.Ifaces = slices.Clone(dev.Ifaces)
		for i := range dev.Ifaces {
			f := &dev.Ifaces[i]
			f.Addr = bytes.Clone(f.Addr)
			f.EpAddrs = slices.Clone(f.EpAddrs)
			for e := range f.EpAddrs {
				f.EpAddrs[e].Addr = bytes.Clone(f.EpAddrs[e].Addr)
			}
		}
	}
	return &c
}

// HasEnds reports whether the address contains endpoints.
func (a *WorkerAddress) HasEnds() (has bool) {
	a.Ifaces(func(_ int, _ *AddressDevice, i *AddressIface) bool {
		has = len(i.EpAddrs) > 0
		return !has
	})
	return has
}

// WithoutEnds returns a copy without endpoints.
func (a *WorkerAddress) WithoutEnds() *WorkerAddress {
	c := a.Clone()
	for d := range c.Devices {
		for i := range c.Devices[d].Ifaces {
			c.Devices[d].Ifaces[i].EpAddrs = nil
		}
	}
	return c
}

// String describes the address on one line per transport.
func (a *WorkerAddress) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v uuid %#x", a.Version, a.UUID)
	if a.Release != 0 {
		fmt.Fprintf(&b, " release 1.%d", a.Release)
	}
	if a.Name != "" {
		fmt.Fprintf(&b, " name %q", a.Name)
	}
	if a.Token != nil {
		b.WriteString(" token") // which is a secret
	}
	for i, d := range a.Devices {
		for _, f := range d.Ifaces {
			fmt.Fprintf(&b, "\n  device %d: %v md %d paths %d device address %x iface address %x %v",
				i, f.Transport, d.MD, d.NumPaths, d.Addr, f.Addr, f.Attr)
			if len(f.EpAddrs) > 0 {
				fmt.Fprintf(&b, " eps %d", len(f.EpAddrs))
			}
		}
	}
	return b.String()
}
