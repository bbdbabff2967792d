package uct

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// MemoryDomain registers and allocates memory for the transports that work with it. It is
// opened once per context and shared by its workers: any goroutine may call its methods.
type MemoryDomain interface {
	// Attr describes the domain. The result does not change and must not be modified.
	Attr() *MDAttr

	// Resources lists the transports and devices of the domain; it may be empty.
	Resources() ([]Resource, error)

	// OpenIface opens one resource on a worker; an unknown resource gives
	// ucs.ErrNoDevice.
	OpenIface(w *Worker, p IfaceParams, cfg *config.Set) (Iface, error)

	// Alloc allocates registered memory. Without MDFlagAlloc it returns ucs.ErrUnsupported.
	Alloc(p AllocParams) (MemHandle, error)

	// Register makes the caller's memory usable for zero-copy and, if access includes them,
	// for remote operations. The caller keeps buf reachable and in place until Deregister.
	// Without MDFlagRegister it returns ucs.ErrUnsupported.
	Register(buf []byte, access Access) (MemHandle, error)

	// Deregister ends a registration or frees an allocation. A remote operation
	// that arrives afterwards is refused.
	Deregister(m MemHandle) error

	// AppendKey appends the packed remote key of m, exactly Attr().RkeyPackedSize bytes. A key
	// gives the access that the memory was registered or allocated for. A domain whose peers
	// map the memory cannot limit their access: it has keys only for memory with
	// AccessRemotePut and AccessRemoteGet, and returns ucs.ErrUnsupported for other memory.
	AppendKey(b []byte, m MemHandle) ([]byte, error)

	// UnpackRkey reads a peer's packed key. The bytes are untrusted.
	UnpackRkey(packed []byte) (*Rkey, error)

	// RkeyPtr returns a part of the peer's memory that key gives access to, as memory of this
	// process. Domains of components without ComponentFlagRkeyPtr return ucs.ErrUnsupported.
	RkeyPtr(key *Rkey, raddr uint64, length int) ([]byte, error)

	// ReleaseRkey releases the resources that UnpackRkey attached.
	ReleaseRkey(key *Rkey) error

	// Close closes the domain. Its ifaces must have been closed, and its memory deregistered.
	Close() error
}

// MDAttr describes a memory domain.
type MDAttr struct {
	Component      string
	Name           string
	Flags          MDFlags
	RegTypes       []ucs.MemoryType // memory that can be registered
	AllocTypes     []ucs.MemoryType // memory that can be allocated
	AccessTypes    []ucs.MemoryType // memory that transports driven by the CPU can access
	NonblockTypes  []ucs.MemoryType // memory whose registration does not populate pages
	CacheTypes     []ucs.MemoryType // memory whose registrations may be cached
	MaxAlloc       uint64           // bytes
	MaxReg         uint64           // bytes
	RegCost        Linear           // seconds, and seconds per byte
	RkeyPackedSize int              // bytes; 0: the key is empty
	LocalCPUs      []int            // CPUs near the device; empty: all
	GlobalID       string

	// Missing lists the resources that the domain's device should have and that cannot be
	// opened.
	Missing []MissingResource
}

// MissingResource is a resource that cannot be opened.
type MissingResource struct {
	Name   string // name of a transport, a device or a Resource
	Reason error  // what is missing, and the remedy
}

// MDFlags are capabilities of a memory domain (UCT_MD_FLAG_*).
type MDFlags uint64

// Memory domain flags, with C's bit numbers.
const (
	MDFlagAlloc        MDFlags = 1 << 0
	MDFlagRegister     MDFlags = 1 << 1
	MDFlagNeedMemh     MDFlags = 1 << 2 // zero-copy needs a local handle
	MDFlagNeedRkey     MDFlags = 1 << 3 // remote access needs a key
	MDFlagAdvise       MDFlags = 1 << 4
	MDFlagFixed        MDFlags = 1 << 5 // can allocate at a given address
	MDFlagRkeyPtr      MDFlags = 1 << 6
	MDFlagSockAddr     MDFlags = 1 << 7
	MDFlagInvalidate   MDFlags = 1 << 8
	MDFlagExportedMkey MDFlags = 1 << 9
	MDFlagRegDmabuf    MDFlags = 1 << 10

	// MDFlagInvalidateRMA (UCT_MD_FLAG_INVALIDATE_RMA of uct_md_attr_v2_t): access can be
	// revoked before an operation ends.
	MDFlagInvalidateRMA MDFlags = 1 << 11
)

// Has reports whether all bits of want are set.
func (f MDFlags) Has(want MDFlags) bool { return f&want == want }

// Access is the set of permitted accesses to registered memory (UCT_MD_MEM_ACCESS_*).
type Access uint32

// Access rights, with C's bit numbers.
const (
	AccessRemotePut    Access = 1 << 5
	AccessRemoteGet    Access = 1 << 6
	AccessRemoteAtomic Access = 1 << 7
	AccessLocalRead    Access = 1 << 8
	AccessLocalWrite   Access = 1 << 9

	AccessLocal  = AccessLocalRead | AccessLocalWrite
	AccessRemote = AccessRemotePut | AccessRemoteGet | AccessRemoteAtomic
	AccessAll    = AccessLocal | AccessRemote
)

// AllocParams are the parameters of MemoryDomain.Alloc.
type AllocParams struct {
	Length   int    // bytes; the domain may round up
	Address  uint64 // with Fixed: exactly this address; otherwise a hint, 0 for none
	Fixed    bool
	Nonblock bool // do not populate pages
	Access   Access
	Name     string // for debugging
}

// MemHandle is memory registered with, or allocated by, one domain.
type MemHandle interface {
	// Bytes returns the memory.
	Bytes() []byte
}

// Rkey gives this process access to a peer's memory for one-sided operations.
type Rkey struct {
	Value  uint64 // for the transport's fast path
	Handle any    // the domain's attachment, nil for most domains
}
