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

	// AppendKey appends the packed remote key of m, exactly Attr().RkeyPackedSize bytes. A
	// key gives the access that the memory was registered or allocated for. If the domain's
	// peers map the memory, their access cannot be limited: such a domain has keys only for
	// memory with AccessRemotePut and AccessRemoteGet, and returns ucs.ErrUnsupported for
	// other memory.
	AppendKey(b []byte, m MemHandle) ([]byte, error)

	// UnpackRkey reads a peer's packed key. The bytes are untrusted.
	UnpackRkey(packed []byte) (*Rkey, error)

	// RkeyPtr returns a part of the peer's memory that key opens, as memory of this
	// process. Domains of components without ComponentFlagRkeyPtr return
	// ucs.ErrUnsupported.
	RkeyPtr(key *Rkey, raddr uint64, length int) ([]byte, error)

	// ReleaseRkey releases what UnpackRkey attached.
	ReleaseRkey(key *Rkey) error

	// Close closes the domain. Its ifaces and handles must have been closed.
	Close() error
}

// RkeyChecker is a MemoryDomain whose unpacked keys may be cached. The name in a packed key
// may later refer to other memory, and the domain can detect that.
type RkeyChecker interface {
	// RkeyCurrent reports whether the packed key that key was unpacked from still names the
	// memory that key has attached. It does not allocate.
	RkeyCurrent(key *Rkey) bool

	// RkeyAbandoned reports whether the owner has freed the memory, so that only the
	// attachment keeps it. The domain may not know.
	RkeyAbandoned(key *Rkey) bool
}

// ValueKeys is a MemoryDomain whose remote keys are numbers: to unpack one attaches
// nothing, and it need not be released. Memory that has just been registered can therefore
// be opened to a peer for one message.
type ValueKeys interface {
	// RkeyValue returns the Rkey.Value of a packed key, whose Handle is nil. The bytes are
	// untrusted. It does not allocate.
	RkeyValue(packed []byte) (uint64, error)
}

// Lacking is a MemoryDomain that can list the resources that it lacks.
type Lacking interface {
	// Lacks calls yield with the name of each missing resource and the reason.
	Lacks(yield func(resource string, why error) bool)
}

// Scoper is a MemoryDomain whose peers need only an address, no key, to access registered
// memory. Access can be limited to one peer.
type Scoper interface {
	// Scope returns a peer's scope, made from all addresses that the peer published of this
	// domain's transport. It is made once per endpoint and need not be released. Malformed
	// addresses are left out: a Scope may admit no peer.
	Scope(peer []ReachableParams) Scope

	// RegisterFor is Register for remote access by that peer only. In steady state it
	// allocates nothing. A nil Scope admits every peer.
	RegisterFor(buf []byte, access Access, s Scope) (MemHandle, error)

	// Excludes reports whether accesses over a connection to memory registered for a Scope
	// are refused. It is false for connections of other domains, and while this is not
	// known.
	Excludes(s Scope, src *Source) bool
}

// Scope is a Scoper's representation of a peer.
type Scope any

// Revoker is a MemoryDomain whose peers access memory by themselves and check whether they
// still may. Any goroutine may call it.
type Revoker interface {
	// Revoke refuses accesses with unpacked keys of an allocation that peers start from now
	// on. Accesses in progress go on, and so does RkeyPtr. Only Deregister frees the
	// memory; it revokes access if that was not done before.
	Revoke(m MemHandle)
}

// UseReporter is a MemoryDomain that can tell whether an access by a peer is in progress.
// Any goroutine may call it.
type UseReporter interface {
	// InUse reports whether a peer has begun an operation on registered memory that
	// Deregister would interrupt, and its connection with it.
	InUse(m MemHandle) bool
}

// DMABufRegistrar is a MemoryDomain that registers memory of other devices, which their
// drivers export as dma-bufs, if it has MDFlagRegDmabuf.
type DMABufRegistrar interface {
	// RegisterDMABuf is Register for length bytes of a dma-buf that begin at offset. Peers
	// address them from address on. The descriptor may be closed afterwards; the handle has
	// no Bytes.
	RegisterDMABuf(fd int, offset uint64, length int, address uint64, access Access) (MemHandle, error)
}

// Exporter is a MemoryDomain whose device can open memory of one process to another process
// on the same machine. No domain of this library is one.
type Exporter interface {
	// AppendExportedKey appends the key with which a domain of the same Attr().GlobalID
	// imports m.
	AppendExportedKey(b []byte, m MemHandle) ([]byte, error)

	// Import returns length bytes of memory that a key opens, until Deregister. The key is
	// untrusted.
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
	NonblockTypes  []ucs.MemoryType // memory whose registration does not populate pages
	CacheTypes     []ucs.MemoryType // memory whose registrations may be cached
	MaxAlloc       uint64           // bytes
	MaxReg         uint64           // bytes
	RegCost        Linear           // seconds, and seconds per byte
	RkeyPackedSize int              // bytes; 0: the key is empty
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
	Value  uint64 // what the transport's fast path needs
	Handle any    // what the domain attached, nil for most
}
