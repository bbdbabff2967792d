package proto

// Tag is a message's tag.
type Tag uint64

// EndpointID identifies an endpoint of the receiver of a message; 0 is none. C uses
// pointers or odd table keys: a peer's id is echoed, never interpreted.
type EndpointID uint64

// RequestID identifies a request of the receiver of a message; 0 is none.
type RequestID uint64

// MessageID joins the fragments of one message. Ids count up from a random start: a tag
// receiver finds the message by its id alone.
type MessageID uint64

// Numbers that mean "none".
const (
	NullResource  = 0xFF // resource index
	NullLane      = 0xFF // lane index
	SysDevUnknown = 0xFF // system device
)

// Limits of the C implementation that bound what a peer may send.
const (
	MaxResources = 128 // UCP_MAX_RESOURCES
	MaxMDs       = 64  // UCP_MAX_MDS
	MaxLanes     = 64  // UCP_MAX_LANES in 1.22.0; 6 in 1.13.1
)
