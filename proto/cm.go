package proto

import (
	"slices"

	"github.com/ucx-go/ucx/ucs"
)

// CMVersion is the layout of CMData on the wire (UCX_SA_DATA_VERSION). A server answers in the
// client's version.
type CMVersion uint8

// Layouts of CMData, with their numbers on the wire.
const (
	CMDataV1 CMVersion = 0 // default of release 1.13.1
	CMDataV2 CMVersion = 1 // default of release 1.22.0
)

const (
	cmBaseSize    = 9
	cmV1ExtraSize = 2

	cmVersionShift = 5
	cmFlagPeer     = 1 << 0
	cmFlagFailover = 1 << 1

	cmAddrModeCM = 2 // UCP_WIREUP_SA_DATA_CM_ADDR
)

// CMData is the private data that client and server exchange through the connection manager while
// connecting: ucp_wireup_sockaddr_data_base_t, ucp_wireup_sockaddr_data_v1_t
// (src/ucp/core/ucp_ep.h) and an address.
type CMData struct {
	Version CMVersion
	EpID    EndpointID // the sender's endpoint
	ErrMode ErrMode

	// RscIndex says that the address contains resource indices. Releases from 1.14 on pack
	// and expect them with UCX_CM_USE_ALL_DEVICES=y, their default, and only then; 1.13
	// never does. No field says whether they are present.
	RscIndex bool

	// Both makes Append pack the address so that it can be read with and without resource
	// indices (FormCMBoth). A client with UCX_CM_USE_ALL_DEVICES=y sends this form, because it
	// does not know the server's release yet.
	Both bool

	Address WorkerAddress
}

func (d *CMData) form() AddressForm {
	switch {
	case d.Both:
		return FormCMBoth
	case d.RscIndex:
		return FormCMRsc
	}
	return FormCM
}

// Append appends the packed data. On an error it returns b unchanged.
func (d *CMData) Append(b []byte) ([]byte, error) {
	start := b
	b = le.AppendUint64(b, uint64(d.EpID))
	if d.Version == CMDataV1 {
		b = append(b, byte(d.ErrMode), cmAddrModeCM, 0)
	} else {
		flags := byte(0)
		switch d.ErrMode {
		case ErrModePeer:
			flags = cmFlagPeer
		case ErrModeFailover:
			flags = cmFlagPeer | cmFlagFailover
		}
		b = append(b, byte(d.Version)<<cmVersionShift|flags)
	}
	b, err := d.Address.Append(b, d.form())
	if err != nil {
		return start, err
	}
	return b, nil
}

// ParseCMData reads CMData of either version, with or without resource indices. It parses b in both
// ways, and returns the result that is valid and uses all of b. If both are valid, it returns the
// one with more transports for which known returns true; known may be nil. If that does not decide, it
// returns the one with resource indices for CMDataV2, and the one without for CMDataV1, because the
// releases that default to these versions send those by default. Byte slices in the result alias b.
func ParseCMData(b []byte, known func(TransportID) bool) (d CMData, err error) {
	if len(b) < cmBaseSize {
		return d, cmError("shorter than its header")
	}
	d.EpID = EndpointID(le.Uint64(b))
	head := b[8]
	rest := b[cmBaseSize:]
	d.Version = CMVersion(head >> cmVersionShift)
	switch d.Version {
	case CMDataV1:
		if len(rest) < cmV1ExtraSize {
			return CMData{}, cmError("shorter than its header")
		}
		if rest[0] != cmAddrModeCM {
			return CMData{}, cmError("unsupported address mode")
		}
		d.ErrMode = ErrMode(head)
		rest = rest[cmV1ExtraSize:]
	case CMDataV2:
		switch {
		case head&cmFlagFailover != 0:
			d.ErrMode = ErrModeFailover
		case head&cmFlagPeer != 0:
			d.ErrMode = ErrModePeer
		}
	default:
		return CMData{}, cmError("unknown version")
	}
	if d.ErrMode > ErrModeFailover {
		return CMData{}, cmError("unknown error handling mode")
	}

	usual := d.Version == CMDataV2
	best := -1 // number of known transports
	for _, indices := range [...]bool{usual, !usual} {
		form := CMData{RscIndex: indices}
		a, aerr := form.parseAddress(rest)
		if err == nil {
			err = aerr
		}
		if n := countKnown(&a, known); aerr == nil && n > best {
			best, d.RscIndex, d.Address = n, indices, a
		}
	}
	if best < 0 {
		return CMData{}, err
	}
	return d, nil
}

// parseAddress parses the address b in the form that d says.
func (d *CMData) parseAddress(b []byte) (a WorkerAddress, err error) {
	a, n, err := ParseAddress(b, d.form())
	switch {
	case err != nil:
	case n != len(b):
		err = cmError("bytes after the address")
	case !d.plausible(&a):
		err = cmError("resource or lane out of range")
	}
	return a, err
}

// countKnown returns the number of transports of a for which known returns true.
func countKnown(a *WorkerAddress, known func(TransportID) bool) (n int) {
	a.Ifaces(func(_ int, _ *AddressDevice, f *AddressIface) bool {
		if known != nil && known(f.Transport) {
			n++
		}
		return true
	})
	return n
}

// AllDevices reports whether the sender has UCX_CM_USE_ALL_DEVICES=y; known is false if its
// data does not show that. Resource indices are packed only with that setting. A sender that
// packs none has the setting off, or is release 1.13, whose addresses contain MD capabilities
// (MDCaps) that releases from 1.19 on omit.
func (d *CMData) AllDevices() (all, known bool) {
	switch {
	case d.RscIndex:
		return true, true
	case d.Address.Version != AddressV1:
		return false, false
	}
	return false, !slices.ContainsFunc(d.Address.Devices, func(d AddressDevice) bool { return d.MDCaps != 0 })
}

// plausible reports whether the address a was parsed with the right assumption about resource
// indices (d.RscIndex). With the wrong assumption the parser is off by a byte, but for one in two
// dozen captured messages it still succeeds and uses all of the data. With the right assumption
// every resource index is small, and each endpoint has an address and a different lane other than
// 0, the lane of the connection manager.
func (d *CMData) plausible(a *WorkerAddress) bool {
	var lanes uint64
	ok := true
	a.Ifaces(func(_ int, _ *AddressDevice, f *AddressIface) bool {
		ok = ok && (!d.RscIndex || f.RscIndex < MaxResources) && len(f.Addr)+len(f.EpAddrs) > 0
		for _, ep := range f.EpAddrs {
			ok = ok && ep.Lane != 0 && lanes&(1<<ep.Lane) == 0 && len(ep.Addr) != 0
			lanes |= 1 << ep.Lane
		}
		return ok
	})
	return ok
}

func cmError(reason string) error {
	return &FormatError{What: "connection data", Reason: reason, Status: ucs.ErrInvalidAddr}
}
