package proto

import (
	"slices"

	"github.com/ucx-go/ucx/ucs"
)

// maxPlainMD is the largest MD index that every release reads in address v1:
// releases up to 1.18 use the bits above for capabilities.
const maxPlainMD = 31

// Append packs the address in the layout of its version. Every release from 1.13 on reads
// both versions. Append fails if v1 has no room: for an MD index above 31 without an
// announced release that reads it, a device address above 31 bytes, or an interface address
// above 63 bytes. v2 has room for 255 bytes each, but no form for FormCMBoth. On an error
// it returns b unchanged.
func (a *WorkerAddress) Append(b []byte, form AddressForm) ([]byte, error) {
	start := b
	v2 := a.Version == AddressV2
	switch {
	case a.Version > AddressV2:
		return b, formatErrorf(ucs.ErrUnsupported, "address", "unsupported version %v", a.Version)
	case v2 && form&FormCMBoth != 0:
		return b, formatErrorf(ucs.ErrUnsupported, "address", "version %v in a form for all releases", a.Version)
	case v2:
		// There is no way to announce nothing: C takes 0, which 1.13.1 packs, for 1.16.
		b = append(b, byte(a.Version)|byte(a.Release%releaseModulo)<<4, byte(a.Flags))
	default:
		b = append(b, byte(a.Version)|byte(a.Flags)<<4)
	}
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
	trailer := a.Release != 0 && !v2
	if len(devices) == 0 && !trailer {
		return append(b, noDevices), nil
	}
	if ifaces > maxAddressIfaces {
		return start, formatErrorf(ucs.ErrInvalidParam, "address", "%d interfaces, limit %d", ifaces, maxAddressIfaces)
	}

	// In v1 the release stands in a pseudo device behind the real ones, which then is
	// the last. Readers older than 1.16 take it for a device without transports.
	for i := range devices {
		d := &devices[i]
		if v2 && i == 0 && len(d.Ifaces) == 0 && d.MD >= maskMD {
			return start, formatErrorf(ucs.ErrInvalidParam, "address", "first device, of domain %d, has no interfaces", d.MD)
		}
		last := !trailer && i == len(devices)-1
		var err error
		if v2 {
			b, err = d.appendV2(b, form, last)
		} else {
			b, err = d.append(b, form, a.Release, last)
		}
		if err != nil {
			return start, err
		}
	}
	if trailer {
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
	b = append(b, md, byte(len(d.Addr))|d.flags(last))
	b = d.appendRest(b)
	for i := range d.Ifaces {
		var err error
		if b, err = d.Ifaces[i].append(b, form, i == len(d.Ifaces)-1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendV2 is append in layout v2.
func (d *AddressDevice) appendV2(b []byte, form AddressForm, last bool) ([]byte, error) {
	if len(d.Addr) > 0xFF {
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "device address of %d bytes, limit 255", len(d.Addr))
	}
	var empty byte
	if len(d.Ifaces) == 0 {
		empty = flagEmptyDev
	}
	b = appendExtended(b, d.MD, maskMD, empty)
	b = appendExtended(b, byte(len(d.Addr)), maskDeviceLen, d.flags(last))
	b = d.appendRest(b)
	for i := range d.Ifaces {
		var err error
		if b, err = d.Ifaces[i].appendV2(b, form, i == len(d.Ifaces)-1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendExtended packs a value beside flags; one that does not fit there follows in a
// byte of its own, and so does the largest that would, which says so.
func appendExtended(b []byte, v, mask, flags byte) []byte {
	if v < mask {
		return append(b, v|flags)
	}
	return append(b, mask|flags, v)
}

// flags are those beside the length of the address.
func (d *AddressDevice) flags(last bool) (flags byte) {
	if last {
		flags |= flagLast
	}
	if d.NumPaths > 1 {
		flags |= flagNumPaths
	}
	if d.SysDev != SysDevUnknown {
		flags |= flagSysDev
	}
	return flags
}

// appendRest packs what follows the length of the address and is not an interface.
func (d *AddressDevice) appendRest(b []byte) []byte {
	if d.NumPaths > 1 {
		b = append(b, d.NumPaths)
	}
	if d.SysDev != SysDevUnknown {
		b = append(b, d.SysDev)
	}
	return append(b, d.Addr...)
}

func (f *AddressIface) append(b []byte, form AddressForm, last bool) ([]byte, error) {
	if len(f.Addr) > maskIfaceLen {
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "interface address of %d bytes, limit %d", len(f.Addr), maskIfaceLen)
	}
	b = le.AppendUint16(b, uint16(f.Transport))
	b = f.Attr.appendV1(b)
	flags := byte(len(f.Addr)) | f.flags(last)
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
	return f.appendEnds(b)
}

// appendV2 is append in layout v2.
func (f *AddressIface) appendV2(b []byte, form AddressForm, last bool) ([]byte, error) {
	if len(f.Addr) > 0xFF {
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "interface address of %d bytes, limit 255", len(f.Addr))
	}
	b = le.AppendUint16(b, uint16(f.Transport))
	b = f.Attr.appendV2(b)
	if form&FormRscIndex != 0 {
		b = append(b, f.RscIndex)
	}
	b = appendExtended(b, byte(len(f.Addr)), maskIfaceLen, f.flags(last))
	b = append(b, f.Addr...)
	return f.appendEnds(b)
}

// flags are those beside the length of the address.
func (f *AddressIface) flags(last bool) (flags byte) {
	if last {
		flags |= flagLast
	}
	if len(f.EpAddrs) > 0 {
		flags |= flagHasEp
	}
	return flags
}

// appendEnds packs the endpoints.
func (f *AddressIface) appendEnds(b []byte) ([]byte, error) {
	if len(f.EpAddrs) > maxIfaceEps {
		return nil, formatErrorf(ucs.ErrInvalidParam, "address", "%d endpoint addresses, limit %d", len(f.EpAddrs), maxIfaceEps)
	}
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
