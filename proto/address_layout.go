package proto

// Flag bits of the length bytes (UCP_ADDRESS_FLAG_* in
// src/ucp/wireup/address.c).
const (
	flagLast      = 0x80 // last device, last interface of a device, last endpoint
	flagHasEp     = 0x40 // interface: endpoint addresses follow
	flagNumPaths  = 0x40 // device: a number of paths follows
	flagSysDev    = 0x20 // device: a system device follows
	flagEmptyDev  = 0x80 // MD byte: no interfaces follow
	maskIfaceLen  = 0x3F
	maskDeviceLen = 0x1F
	maskMD        = 0x7F
	maskLane      = 0x3F
	mdCapsMask    = 0x60
	noDevices     = 0xFF // instead of the first MD byte
)

// Limits on one address. C has the first and the second.
const (
	maxAddressIfaces  = MaxResources
	maxIfaceEps       = MaxLanes
	maxAddressDevices = MaxResources
)
