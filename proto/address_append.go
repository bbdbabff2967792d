package proto

import (
	"slices"

	"github.com/ucx-go/ucx/ucs"
)

// maxPlainMD is the largest MD index that every release reads in address v1:
// releases up to 1.18 use the bits above for capabilities.
const maxPlainMD = 31

// Append packs the address in layout v1, which every release reads. It fails
// where the layout has no room: an MD index above 31 without announcing a
// release that reads it, a device address above 31 bytes, an interface address
// above 63. On an error it returns b unchanged.
func (a *WorkerAddress) Append(b []byte, form AddressForm) ([]byte, error) {
	if a.Version != AddressV1 {
		return b, formatErrorf(ucs.ErrUnsupported, "address", "packing version %v", a.Version)
	}
	start := b
	b = append(b, byte(a.Version)|byte(a.Flags)<<4)
	if a.Flags&AddressHasUUID != 0 {
		b = le.AppendUint64(b, a.UUID)
	}
	if a.Flags&AddressHasClientID != 0 {
		b = le.AppendUint64(b, a.ClientID)
	}
	if a.Flags&AddressHasName != 0 && form&FormName != 0 {
		if len(a.Name) > 0xFF {
			return start, formatErrorf(ucs.ErrInvalidParam, "address", "name of %d bytes, limit 255", len(a.Name))
		}
		b = append(b, byte(len(a.Name)))
		b = append(b, a.Name...)
	}
	devices, ifaces := a.Devices, a.NumIfaces()
	if a.Token != nil {
		if err := a.Token.check(); err != nil {
			return start, err
		}
		devices, ifaces = append(slices.Clip(devices), a.Token.device()), ifaces+1
	}
	if len(devices) == 0 && a.Release == 0 {
		return append(b, noDevices), nil
	}
	if ifaces > maxAddressIfaces {
		return start, formatErrorf(ucs.ErrInvalidParam, "address", "%d interfaces, limit %d", ifaces, maxAddressIfaces)
	}

	// The release stands in a pseudo device behind the real ones, which then is
	// the last. Readers older than 1.16 take it for a device without transports.
	for i := range devices {
		last := a.Release == 0 && i == len(devices)-1
		var err error
		if b, err = devices[i].append(b, form, a.Release, last); err != nil {
			return start, err
		}
	}
	if a.Release != 0 {
		b = append(b, flagEmptyDev|byte(a.Release%releaseModulo), flagLast)
	}
	return b, nil
}

func (d *AddressDevice) append(b []byte, form AddressForm, release int, last bool) ([]byte, error) {
	md := d.MD
	switch {
	case release > lastMDCapsRelease && md <= maskMD:
	case md <= maxPlainMD:
		md |= d.MDCaps & mdCapsMask
	default:
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "memory domain index %d does not fit", d.MD)
	}
	if len(d.Ifaces) == 0 {
		md |= flagEmptyDev
	}
	if len(d.Addr) > maskDeviceLen {
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "device address of %d bytes, limit %d", len(d.Addr), maskDeviceLen)
	}
	flags := byte(len(d.Addr))
	if last {
		flags |= flagLast
	}
	if d.NumPaths > 1 {
		flags |= flagNumPaths
	}
	if d.SysDev != SysDevUnknown {
		flags |= flagSysDev
	}
	b = append(b, md, flags)
	if d.NumPaths > 1 {
		b = append(b, d.NumPaths)
	}
	if d.SysDev != SysDevUnknown {
		b = append(b, d.SysDev)
	}
	b = append(b, d.Addr...)

	for i := range d.Ifaces {
		var err error
		if b, err = d.Ifaces[i].append(b, form, i == len(d.Ifaces)-1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (f *AddressIface) append(b []byte, form AddressForm, last bool) ([]byte, error) {
	if len(f.Addr) > maskIfaceLen {
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "interface address of %d bytes, limit %d", len(f.Addr), maskIfaceLen)
	}
	if len(f.EpAddrs) > maxIfaceEps {
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "%d endpoint addresses, limit %d", len(f.EpAddrs), maxIfaceEps)
	}
	b = le.AppendUint16(b, uint16(f.Transport))
	b = f.Attr.appendV1(b)
	flags := byte(len(f.Addr))
	if last {
		flags |= flagLast
	}
	if len(f.EpAddrs) > 0 {
		flags |= flagHasEp
	}
	switch {
	case form&FormRscIndex != 0:
		b = append(b, f.RscIndex)
	case form&FormCMBoth != 0:
		// Who expects no resource index finds here the length of an interface address
		// that begins with the next byte, and who expects one ignores it and finds the
		// real length there. Both find the same behind the address, which is of no use
		// for endpoints that are connected pairwise. Nothing else is understood by
		// 1.13.1 and 1.22.0 alike, as these are by default.
		if len(f.Addr) == maskIfaceLen {
			return nil, formatErrorf(ucs.ErrInvalidParam, "address", "interface address of %d bytes in a form for all releases", len(f.Addr))
		}
		b = append(b, flags+1)
	}
	b = append(b, flags)
	b = append(b, f.Addr...)

	for i, ep := range f.EpAddrs {
		if len(ep.Addr) > 0xFF || ep.Lane > maskLane {
			return nil, formatErrorf(ucs.ErrInvalidParam, "address", "endpoint address of %d bytes for lane %d does not fit", len(ep.Addr), ep.Lane)
		}
		b = append(b, byte(len(ep.Addr)))
		b = append(b, ep.Addr...)
		lane := ep.Lane
		if i == len(f.EpAddrs)-1 {
			lane |= flagLast
		}
		b = append(b, lane)
	}
	return b, nil
}
