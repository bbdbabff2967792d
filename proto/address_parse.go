package proto

import "github.com/ucx-go/ucx/ucs"

// errAddressEnd is every truncated address.
var errAddressEnd error = &FormatError{What: "address", Reason: "truncated", Status: ucs.ErrInvalidAddr}

// ParseAddress reads a packed address of either version from the start of b and returns the
// number of bytes that it takes. Byte slices in the result alias b. Transports that are not
// known here are kept: reachability is decided elsewhere.
//
// C readers trust every length; ParseAddress checks them all.
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
		// 1.13.1 leaves the release of a v2 header 0. C takes that for 1.16; to
		// announce nothing is the safer reading.
		if nibble := head >> 4; nibble != 0 {
			a.Release = releaseFromWire(nibble)
		}
		a.Flags = AddressFlags(p.u8() & 0xF)
	default:
		return formatErrorf(ucs.ErrInvalidAddr, "address", "unknown version %d", head&0xF)
	}

	// The uuid flag came with 1.12; before, v1 had one wherever it belongs.
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

// extended reads a value that shares its byte with flags. In v2 all ones mean
// that the value follows in a byte of its own.
func (p *addressParser) extended(first, mask byte) byte {
	v := first & mask
	if p.v2 && v == mask {
		return p.u8()
	}
	return v
}

// device appends one device to a; last is set behind the final one.
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
