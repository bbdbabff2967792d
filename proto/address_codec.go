package proto

import (
	"slices"

	"github.com/ucx-go/ucx/ucs"
)

// maxPlainMD is the largest MD index that every release can read in address v1: releases up to
// 1.18 use the higher bits of the byte for capabilities.
const maxPlainMD = 31

// Append packs the address in the layout of its version. Every release from 1.13 on reads both
// versions. In v1 Append fails for an MD index above 31, or above 127 if the announced release is
// 1.19 or later, for a device address above 31 bytes, and for an interface address above 63 bytes.
// v2 allows 255 bytes for each address, but does not support FormCMBoth. On an error Append
// returns b unchanged.
func (a *WorkerAddress) Append(b []byte, form AddressForm) ([]byte, error) {
	start := b
	v2 := a.Version == AddressV2
	switch {
	case a.Version > AddressV2:
		return b, formatErrorf(ucs.ErrUnsupported, "address", "unsupported version %v", a.Version)
	case v2 && form&FormCMBoth != 0:
		return b, formatErrorf(ucs.ErrUnsupported, "address", "version %v is not supported with FormCMBoth (connection data for all releases)", a.Version)
	case v2:
		// v2 cannot omit the release: C reads 0, which 1.13.1 packs, as 1.16.
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

	// v1 packs the release in a pseudo device, the last device of the address. Readers older
	// than 1.16 take it for a device without transports.
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

// appendV2 packs the device in address layout v2. last marks the final device of the address.
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

// appendExtended packs v and flags into one byte if v is below mask. Otherwise the byte has mask in
// the place of v, and v follows in a second byte.
func appendExtended(b []byte, v, mask, flags byte) []byte {
	if v < mask {
		return append(b, v|flags)
	}
	return append(b, mask|flags, v)
}

// flags returns the flags of the byte that also has the length of the device address. last marks
// the final device of the address.
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

// appendRest packs the fields between the length byte and the interfaces: the number of paths, the
// system device and the device address.
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
		// A reader without resource indices takes this byte for the length of an
		// interface address that begins with the next byte. A reader with resource
		// indices takes this byte for the index, ignores it, and finds the real length
		// in the next byte. Both readers agree on everything behind the interface
		// address. The address itself is not needed for endpoints that are connected
		// pairwise. 1.13.1 and 1.22.0 with default settings both read no other form.
		if len(f.Addr) == maskIfaceLen {
			return nil, formatErrorf(ucs.ErrInvalidParam, "address", "interface address of %d bytes is not supported with FormCMBoth (connection data for all releases)", len(f.Addr))
		}
		b = append(b, flags+1)
	}
	b = append(b, flags)
	b = append(b, f.Addr...)
	return f.appendEnds(b)
}

// appendV2 packs the interface in address layout v2. last marks the final interface of a device.
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

// flags returns the flags of the byte that also has the length of the interface address. last
// marks the final interface of a device.
func (f *AddressIface) flags(last bool) (flags byte) {
	if last {
		flags |= flagLast
	}
	if len(f.EpAddrs) > 0 {
		flags |= flagHasEp
	}
	return flags
}

// appendEnds packs the endpoint addresses of the interface.
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

// errAddressEnd is the error of every truncated address.
var errAddressEnd error = &FormatError{What: "address", Reason: "truncated", Status: ucs.ErrInvalidAddr}

// ParseAddress reads a packed address of either version from the start of b and returns the
// number of bytes that it takes. Byte slices in the result alias b. The result includes unknown
// transports; callers decide which transports are reachable.
//
// C UCX does not check the lengths; ParseAddress checks all of them.
func ParseAddress(b []byte, form AddressForm) (a WorkerAddress, n int, err error) {
	r := reader{b: b}
	p := addressParser{reader: &r, form: form}
	if err := p.parse(&a); err != nil {
		return WorkerAddress{}, 0, err
	}
	return a, r.off, nil
}

type addressParser struct {
	*reader
	form   AddressForm
	v2     bool
	ifaces int
}

func (p *addressParser) parse(a *WorkerAddress) error {
	head := p.u8()
	a.Version = AddressVersion(head & 0xF)
	switch a.Version {
	case AddressV1:
		a.Flags = AddressFlags(head >> 4)
	case AddressV2:
		p.v2 = true
		// 1.13.1 packs release 0 in a v2 header. C reads that as 1.16; here it counts
		// as no announcement, which is safer.
		if nibble := head >> 4; nibble != 0 {
			a.Release = releaseFromWire(nibble)
		}
		a.Flags = AddressFlags(p.u8() & 0xF)
	default:
		return formatErrorf(ucs.ErrInvalidAddr, "address", "unknown version %d", head&0xF)
	}

	// The UUID flag exists since 1.12. Older releases pack the UUID into every form that has
	// one, without the flag.
	if !p.v2 && p.form&FormUUID != 0 {
		a.Flags |= AddressHasUUID
	}
	if a.Flags&AddressHasUUID != 0 {
		a.UUID = p.u64()
	}
	if a.Flags&AddressHasClientID != 0 {
		a.ClientID = p.u64()
	}
	if a.Flags&AddressHasName != 0 && p.form&FormName != 0 {
		a.Name = string(p.take(int(p.u8())))
	}
	if p.short || p.rest() == 0 {
		return errAddressEnd
	}
	if p.b[p.off] == noDevices {
		p.off++
		return nil
	}
	for {
		last, err := p.device(a)
		if err != nil {
			return err
		}
		if last {
			break
		}
	}
	if !p.v2 && a.Release <= lastMDCapsRelease {
		for i := range a.Devices {
			d := &a.Devices[i]
			d.MDCaps = d.MD & mdCapsMask
			d.MD &^= mdCapsMask
		}
	}
	return nil
}

// extended returns a value that shares its byte with flags. In v2 all ones mean that the actual
// value follows in the next byte.
func (p *addressParser) extended(first, mask byte) byte {
	v := first & mask
	if p.v2 && v == mask {
		return p.u8()
	}
	return v
}

// device parses one device and appends it to a. last reports whether it was the final one.
func (p *addressParser) device(a *WorkerAddress) (last bool, err error) {
	d := AddressDevice{NumPaths: 1, SysDev: SysDevUnknown}
	mdByte := p.u8()
	d.MD = p.extended(mdByte, maskMD)
	flags := p.u8()
	n := p.extended(flags, maskDeviceLen)
	if flags&flagNumPaths != 0 {
		d.NumPaths = max(p.u8(), 1)
	}
	if flags&flagSysDev != 0 {
		d.SysDev = p.u8()
	}
	d.Addr = p.take(int(n))
	if p.short {
		return false, errAddressEnd
	}
	last = flags&flagLast != 0
	empty := mdByte&flagEmptyDev != 0
	if empty && last && !p.v2 {
		a.Release = releaseFromWire(d.MD & (releaseModulo - 1))
		return true, nil
	}
	if len(a.Devices) == maxAddressDevices {
		return false, formatErrorf(ucs.ErrInvalidAddr, "address", "more than %d devices", maxAddressDevices)
	}
	for lastIface := empty; !lastIface; {
		f, l, err := p.iface()
		if err != nil {
			return false, err
		}
		d.Ifaces = append(d.Ifaces, f)
		lastIface = l
	}
	if t := tokenOf(&d); t != nil {
		a.Token = t // the last, if there are several
		return last, nil
	}
	a.Devices = append(a.Devices, d)
	return last, nil
}

func (p *addressParser) iface() (f AddressIface, last bool, err error) {
	if p.ifaces == maxAddressIfaces {
		return f, false, formatErrorf(ucs.ErrInvalidAddr, "address", "more than %d interfaces", maxAddressIfaces)
	}
	p.ifaces++
	f.Transport = TransportID(p.u16())
	if p.v2 {
		f.Attr = parseAttrV2(p.reader)
	} else {
		f.Attr = parseAttrV1(p.reader)
	}
	f.RscIndex = NullResource
	if p.form&FormRscIndex != 0 {
		f.RscIndex = p.u8()
	}
	flags := p.u8()
	f.Addr = p.take(int(p.extended(flags, maskIfaceLen)))
	if p.short {
		return f, false, errAddressEnd
	}
	if err := f.Attr.check(); err != nil {
		return f, false, err
	}
	for more := flags&flagHasEp != 0; more; {
		if len(f.EpAddrs) == maxIfaceEps {
			return f, false, formatErrorf(ucs.ErrInvalidAddr, "address", "more than %d endpoint addresses", maxIfaceEps)
		}
		addr := p.take(int(p.u8()))
		lane := p.u8()
		if p.short {
			return f, false, errAddressEnd
		}
		f.EpAddrs = append(f.EpAddrs, AddressEp{Lane: lane & maskLane, Addr: addr})
		more = lane&flagLast == 0
	}
	return f, flags&flagLast != 0, nil
}
