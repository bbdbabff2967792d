package uct

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// MemoryDomain registers and allocates memory for the transports that work with
// it. It is opened once per context and shared by its workers: all methods may
// be called from any goroutine.
type MemoryDomain interface {
	// Attr describes the domain. The result does not change and is not to be
	// modified.
	Attr() *MDAttr

	// Resources lists the transports and devices of the domain; it may be empty.
	Resources() ([]Resource, error)

	// OpenIface opens one resource on a worker; an unknown resource gives
	// ucs.ErrNoDevice.
	OpenIface(w *Worker, p IfaceParams, cfg *config.Set) (Iface, error)

	// Alloc allocates memory that is registered from the start. Without
	// MDFlagAlloc it returns ucs.ErrUnsupported.
	Alloc(p AllocParams) (MemHandle, error)

	// Register makes the caller's memory usable for zero-copy and, where access
	// asks for it, for remote operations. The caller keeps buf reachable and in
	// place until Deregister. Without MDFlagRegister it returns
	// ucs.ErrUnsupported.
	Register(buf []byte, access Access) (MemHandle, error)

	// Deregister ends a registration or frees an allocation. A remote operation
	// that arrives afterwards is refused.
	Deregister(m MemHandle) error

	// AppendKey appends the packed remote key of m, exactly
	// Attr().RkeyPackedSize bytes. A key opens memory for what it was registered or
	// allocated for. A domain whose peers map the memory, where nobody can hold them
	// to less, has keys only of memory with AccessRemotePut and AccessRemoteGet; of
	// other memory it returns ucs.ErrUnsupported.
	AppendKey(b []byte, m MemHandle) ([]byte, error)

	// UnpackRkey reads a peer's packed key. The bytes are untrusted.
	UnpackRkey(packed []byte) (*Rkey, error)

	// RkeyPtr returns the part of the peer's memory that key opens, as memory of
	// this process. Domains of components without ComponentFlagRkeyPtr return
	// ucs.ErrUnsupported.
	RkeyPtr(key *Rkey, raddr uint64, length int) ([]byte, error)

	// ReleaseRkey gives back what UnpackRkey attached.
	ReleaseRkey(key *Rkey) error

	// Close closes the domain. Its ifaces and handles must be gone.
	Close() error
}

// RkeyChecker is a MemoryDomain whose unpacked keys may be kept: the name in a
// packed key may come to mean other memory, which the domain can tell.
type RkeyChecker interface {
	// RkeyCurrent reports whether the packed key that key was unpacked from still
	// names the memory that key has attached. It does not allocate.
	RkeyCurrent(key *Rkey) bool

	// RkeyAbandoned reports whether the owner has freed the memory, which then
	// takes room only because it is attached. The domain may not know.
	RkeyAbandoned(key *Rkey) bool
}

// ValueKeys is a MemoryDomain whose remote keys are numbers: to unpack one attaches nothing,
// and it needs not be released. Memory that has just been registered can be opened to a
// peer by it, for one message.
type ValueKeys interface {
	// RkeyValue is the Rkey.Value of a packed key, whose Handle is nil. The bytes are
	// untrusted. It does not allocate.
	RkeyValue(packed []byte) (uint64, error)
}

// Lacking is a MemoryDomain that knows what it has no resources for.
type Lacking interface {
	// Lacks calls yield with the name of each resource that is missing, and the
	// reason.
	Lacks(yield func(resource string, why error) bool)
}

// Scoper is a MemoryDomain whose peers need no key for registered memory, only its
// address. Access can be limited to one peer.
type Scoper interface {
	// Scope is a peer, by all the addresses that it published of this domain's
	// transport. It is made once an endpoint and needs not be given back. Addresses
	// that cannot be read are left out: a Scope may let in nobody.
	Scope(peer []ReachableParams) Scope

	// RegisterFor is Register for remote access by that peer only. In steady state it
	// allocates nothing. A nil Scope is everybody.
	RegisterFor(buf []byte, access Access, s Scope) (MemHandle, error)

	// Excludes reports whether accesses over a connection are refused where memory is
	// registered for a Scope. It is false for connections of other domains, and where
	// that is not known just now.
	Excludes(s Scope, src *Source) bool
}

// Scope is a peer as a Scoper knows it.
type Scope any

// Revoker is a MemoryDomain whose peers access memory by themselves and look
// whether they still may. Any goroutine may call it.
type Revoker interface {
	// Revoke refuses what peers start from now on with unpacked keys of an
	// allocation. What they are doing goes on, and so does RkeyPtr; only
	// Deregister frees the memory, and revokes access if that was not done before.
	Revoke(m MemHandle)
}

// UseReporter is a MemoryDomain that can tell whether a peer is in the middle of an
// access. Any goroutine may call it.
type UseReporter interface {
	// InUse reports whether a peer has begun an operation on registered memory that
	// would be cut short by Deregister, and its connection with it.
	InUse(m MemHandle) bool
}

// DMABufRegistrar is a MemoryDomain that registers memory of other devices, which their
// drivers give away as dma-bufs. It does where it has MDFlagRegDmabuf.
type DMABufRegistrar interface {
	// RegisterDMABuf is Register for length bytes of a dma-buf from offset on, which peers name
	// from address on. The descriptor may be closed afterwards; the handle has no Bytes.
	RegisterDMABuf(fd int, offset uint64, length int, address uint64, access Access) (MemHandle, error)
}

// Exporter is a MemoryDomain whose device opens memory of one process to another one on the
// same machine. None of this library does.
type Exporter interface {
	// AppendExportedKey appends the key by which a domain with the same
	// Attr().GlobalID imports m.
	AppendExportedKey(b []byte, m MemHandle) ([]byte, error)

	// Import returns the memory that a key opens, of that many bytes, until Deregister.
	// The key is untrusted.
	Import(key []byte, length int) (MemHandle, error)
}

// MDAttr describes a memory domain.
type MDAttr struct {
	Component      string
	Name           string
	Flags          MDFlags
	RegTypes       []ucs.MemoryType // memory that can be registered
	AllocTypes     []ucs.MemoryType // memory that can be allocated
	AccessTypes    []ucs.MemoryType // memory the CPU-driven transports can touch
	NonblockTypes  []ucs.MemoryType // memory whose registration does not wait for pages
	CacheTypes     []ucs.MemoryType // memory whose registrations may be kept for later
	MaxAlloc       uint64           // bytes
	MaxReg         uint64           // bytes
	RegCost        Linear           // seconds, and seconds per byte
	RkeyPackedSize int              // bytes; 0: a key carries nothing
	LocalCPUs      []int            // CPUs near the device; empty: all
	GlobalID       string
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
	MDFlagFixed        MDFlags = 1 << 5 // allocates at a given address
	MDFlagRkeyPtr      MDFlags = 1 << 6
	MDFlagSockAddr     MDFlags = 1 << 7
	MDFlagInvalidate   MDFlags = 1 << 8
	MDFlagExportedMkey MDFlags = 1 << 9
	MDFlagRegDmabuf    MDFlags = 1 << 10

	// MDFlagInvalidateRMA (UCT_MD_FLAG_INVALIDATE_RMA of the second version of
	// the interface): access can be taken back before an operation ends.
	MDFlagInvalidateRMA MDFlags = 1 << 11
)

// Has reports whether all bits of want are set.
func (f MDFlags) Has(want MDFlags) bool { return f&want == want }

// Access says what may be done with registered memory (UCT_MD_MEM_ACCESS_*).
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
	Address  uint64 // with Fixed: exactly there; otherwise a hint, 0 for none
	Fixed    bool
	Nonblock bool // do not populate pages
	Access   Access
	Name     string // for debugging
}

// MemHandle is memory known to one domain.
type MemHandle interface {
	// Bytes is the memory itself.
	Bytes() []byte
}

// Rkey opens a peer's memory for one-sided operations of this process.
type Rkey struct {
	Value  uint64 // what the transport's fast path needs
	Handle any    // what the domain attached, nil for most
}
