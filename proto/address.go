package proto

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// AddressVersion is the layout of a packed address (UCX_ADDRESS_VERSION).
type AddressVersion uint8

// Layouts of a packed address, with their numbers on the wire.
const (
	AddressV1 AddressVersion = 0
	AddressV2 AddressVersion = 1
)

// String returns the version as a value of UCX_ADDRESS_VERSION: "v1" or "v2".
func (v AddressVersion) String() string { return fmt.Sprintf("v%d", uint8(v)+1) }

// AddressFlags say which optional fields a packed address has in front of its devices. The bits
// are those of the packed header.
type AddressFlags uint8

// Flags of a packed address.
const (
	AddressHasName     AddressFlags = 1 << 0 // has the worker's name (UCX_ADDRESS_DEBUG_INFO)
	AddressHasUUID     AddressFlags = 1 << 1
	AddressHasClientID AddressFlags = 1 << 2
	AddressAMOnly      AddressFlags = 1 << 3 // has only the interface of the active message lane
)

// AddressForm is the kind of message that contains an address. The packed bytes do not identify
// the form; both sides know it from the message.
type AddressForm uint8

// Optional fields that the form of an address determines.
const (
	FormUUID     AddressForm = 1 << 0 // has a UUID; before 1.12 packed without AddressHasUUID
	FormName     AddressForm = 1 << 1 // has the worker's name if the header has AddressHasName
	FormRscIndex AddressForm = 1 << 2 // has a resource index after the attributes of each interface
)

// Address forms of the existing messages.
const (
	FormWorker = FormUUID | FormName
	FormWireup = FormUUID | FormName | FormRscIndex

	// FormCM is an address in the private data of a connection manager's connection, as sent by
	// 1.13.1 and by 1.22.0 with UCX_CM_USE_ALL_DEVICES=n. FormCMRsc is the form that 1.22.0
	// sends with UCX_CM_USE_ALL_DEVICES=y.
	FormCM    AddressForm = 0
	FormCMRsc AddressForm = FormRscIndex

	// FormCMBoth is private data that can be read both with and without resource indices. It
	// is used only for packing (AddressIface.append).
	FormCMBoth AddressForm = 1 << 3
)

// WorkerAddress is a packed address: ucp_unpacked_address_t and the layout of
// src/ucp/wireup/address.c. Worker addresses, wireup messages and connection data have the
// same format.
type WorkerAddress struct {
	Version  AddressVersion
	Flags    AddressFlags
	UUID     uint64 // identifies the worker; comparing UUIDs settles simultaneous requests
	ClientID uint64
	Name     string

	// Release is the minor release that the sender announces: 22 for 1.22. 0 means that it
	// announces none: it is 1.15 or older, or an implementation that claims no release. v1
	// announces the release in a trailer behind the devices.
	Release int

	Devices []AddressDevice

	// Token is the sender's token, nil if it has none. On the wire a token looks like a
	// device with a transport that C UCX does not know.
	Token *Token
}

// AddressDevice is one device of a worker and the transports on it.
type AddressDevice struct {
	MD uint8 // the sender's index of the memory domain, and its bit in Rkey.MDMap

	// MDCaps are the two capability bits that releases up to 1.18 pack above the index
	// (0x40 alloc, 0x20 register). No release reads them.
	MDCaps uint8

	NumPaths uint8  // number of parallel network paths, at least 1
	SysDev   uint8  // the sender's number of the system device, SysDevUnknown if not announced
	Addr     []byte // device address, in the transport's format
	Ifaces   []AddressIface
}

// AddressIface is one transport on a device.
type AddressIface struct {
	Transport TransportID
	Attr      IfaceAttr
	RscIndex  uint8 // the sender's index of the resource; only with FormRscIndex
	Addr      []byte
	EpAddrs   []AddressEp
}

// PackedBoth reports whether f holds an interface address of n bytes that was packed in
// FormCMBoth and read without resource indices. Then Addr has one more byte at its start: the
// length that readers with resource indices use.
func (f *AddressIface) PackedBoth(n int) bool {
	return len(f.Addr) == n+1 && int(f.Addr[0]&maskIfaceLen) == n
}

// AddressEp is the address of a transport endpoint that the receiver connects with one transport
// endpoint of its own.
type AddressEp struct {
	Lane uint8 // in a wireup request the lane of the sender, in a reply the lane of the receiver
	Addr []byte
}

// Entry returns the transport at position index of the address, counted as by Ifaces, and its
// device. Both are nil if there is none.
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

// index returns the position of transport f in the address, as Ifaces counts.
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

// HasEnds reports whether the address contains endpoint addresses.
func (a *WorkerAddress) HasEnds() (has bool) {
	a.Ifaces(func(_ int, _ *AddressDevice, i *AddressIface) bool {
		has = len(i.EpAddrs) > 0
		return !has
	})
	return has
}

// WithoutEnds returns a copy without endpoint addresses.
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
		b.WriteString(" token") // its key is a secret
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

// Flag bits of the length bytes (UCP_ADDRESS_FLAG_* in
// src/ucp/wireup/address.c).
const (
	flagLast      = 0x80 // the last device, interface of a device, or endpoint of an interface
	flagHasEp     = 0x40 // of an interface: endpoint addresses follow
	flagNumPaths  = 0x40 // of a device: a number of paths follows
	flagSysDev    = 0x20 // of a device: a system device follows
	flagEmptyDev  = 0x80 // in the MD byte: the device has no interfaces
	maskIfaceLen  = 0x3F
	maskDeviceLen = 0x1F
	maskMD        = 0x7F
	maskLane      = 0x3F
	mdCapsMask    = 0x60
	noDevices     = 0xFF // in place of the first MD byte: the address has no devices
)

// Limits on one address. C UCX has the first two.
const (
	maxAddressIfaces  = MaxResources
	maxIfaceEps       = MaxLanes
	maxAddressDevices = MaxResources
)
