package uct

import (
	"crypto/tls"
	"net/netip"
)

// Optional capabilities. Component, MemoryDomain, Iface, Endpoint and SourceOwner have what every
// transport needs. An object may have more capabilities: it then implements interfaces of this
// file, which are grouped by the object that implements them:
//
//	Endpoint      RMA, Atomic      access to the peer's memory
//	              Paired           connected to one endpoint of the peer
//	              NetworkEndpoint  sends on a connection over a network
//	              ProcessEndpoint  sends to a process of this machine
//	Iface         NetworkIface     peers have addresses in a network
//	              ProcessIface     peers are processes of this machine
//	SourceOwner   Connection       the other end can be identified, and reading can be paused
//	MemoryDomain  MappedMemory     peers on this machine map memory by its name
//	              ScopedMemory     peers access memory without a key
//	              DeviceMemory     a device accesses memory by numeric keys
//
// The user of a transport asserts a capability when it sets an object up, or on a slow path, never
// for each message. Each comment says what the layer above (ucp) does without the capability. The
// worker's goroutine calls the methods of endpoints, ifaces and connections, and any goroutine
// those of memory domains, as with the interfaces that the capabilities belong to.
//
// RMA, Atomic and Paired are announced by flags of the iface: every endpoint of an iface with
// such a flag has the interface. Without the flag an endpoint may still have the interface,
// because settings can disable a capability that the type implements; all methods of the
// interface then return ucs.ErrUnsupported. The other capabilities have no flag. A transport that
// has only a part of one embeds the default implementation of the rest (defaults.go).

// RMA is an Endpoint that reads and writes the peer's memory. Flags from IfacePutShort to
// IfaceGetZcopy announce the operations; operations that are not announced return
// ucs.ErrUnsupported. Without RMA ucp puts and gets by active messages that the peer executes.
type RMA interface {
	// PutShort, PutBcopy and PutZcopy write to the peer's memory at raddr. Their end (the result
	// nil, or the completion) means that the local buffer may be reused; visibility at the peer
	// needs a Flush. PutBcopy packs at most length bytes, possibly directly into the peer's memory.
	// PutShort and PutBcopy return an error before anything is packed if the peer is known to
	// refuse an access of that length at raddr.
	PutShort(buf []byte, raddr uint64, key *Rkey) error
	PutBcopy(p Packer, length int, raddr uint64, key *Rkey) (int, error)
	PutZcopy(iov []IOV, raddr uint64, key *Rkey, c *Completion) error

	// GetBcopy and GetZcopy read the peer's memory at raddr. Their end (the result nil, or the
	// completion) means that the data has arrived.
	GetBcopy(u Unpacker, length int, raddr uint64, key *Rkey, c *Completion) error
	GetZcopy(iov []IOV, raddr uint64, key *Rkey, c *Completion) error
}

// Atomic is an Endpoint with atomic operations on naturally aligned words of the peer.
// IfaceAtomicCPU or IfaceAtomicDevice announces it, and IfaceAttr.Atomic32 and Atomic64 list the
// operations; operations that are not listed return ucs.ErrUnsupported. Without Atomic ucp sends
// active messages, and the peer's CPU executes the operation.
type Atomic interface {
	// Atomic32Post and Atomic64Post return no result.
	Atomic32Post(op AtomicOp, value uint32, raddr uint64, key *Rkey) error
	Atomic64Post(op AtomicOp, value uint64, raddr uint64, key *Rkey) error

	// The other operations store the previous value in *result. Their end (the result nil, or the
	// completion) means that it has been stored.
	Atomic32Fetch(op AtomicOp, value uint32, result *uint32, raddr uint64, key *Rkey, c *Completion) error
	Atomic64Fetch(op AtomicOp, value uint64, result *uint64, raddr uint64, key *Rkey, c *Completion) error
	AtomicCSwap32(compare, swap uint32, raddr uint64, key *Rkey, result *uint32, c *Completion) error
	AtomicCSwap64(compare, swap uint64, raddr uint64, key *Rkey, result *uint64, c *Completion) error
}

// Paired is an Endpoint that is connected to one endpoint of the peer. IfaceConnectToEP announces
// it. Then both sides create an endpoint without addresses, exchange the endpoints' addresses by
// other means and call ConnectToEP. Without Paired an endpoint leads to an iface, whose addresses
// NewEndpoint gets.
type Paired interface {
	// Address returns the endpoint's own address, of IfaceAttr.EpAddrLen bytes.
	Address() ([]byte, error)

	// ConnectToEP connects the endpoint, which was made without addresses, to the peer's
	// endpoint at the address ep. The peer's endpoint must belong to the interface with the
	// address iface, unless iface is empty; otherwise the error matches ucs.ErrInvalidAddr. The
	// bytes are untrusted.
	ConnectToEP(dev, iface, ep []byte) error

	// IsConnectedTo reports whether the destination is the interface at the addresses dev and iface
	// and, if ep is not nil, the endpoint of that interface at the address ep
	// (uct_ep_is_connected). The bytes are untrusted.
	IsConnectedTo(dev, iface, ep []byte) bool
}

// NetworkEndpoint is an Endpoint that sends on a connection over a network. Its methods concern
// the connection's other direction, its addresses and its resources. Without NetworkEndpoint ucp
// assumes what the methods of BasicNetworkEndpoint return.
type NetworkEndpoint interface {
	// Source returns the endpoint's current connection if the peer's messages arrive on the same
	// connection. It returns nil if there is no connection, or messages arrive otherwise. ucp
	// charges what arrives on the connection to the endpoint's peer.
	Source() *Source

	// InterfaceAddr returns the addresses by which the endpoint's peer reaches the interface,
	// which may have several. other reports that the addresses differ from DeviceAddress and
	// Address of the interface; an address packed for the peer must then contain p instead.
	InterfaceAddr() (p ReachableParams, other bool)

	// Claim marks an endpoint that was created with EndpointParams.ForPeer as held by the
	// application: ForPeer no longer applies.
	Claim()

	// Drain replaces Close if the peer is not notified and may continue to send, or if the peer
	// has not yet received the acknowledgement of all that it sent. It is for transports whose
	// Close also ends the peer's endpoint. The endpoint is closed for its owner, and continues to
	// receive until its interface is closed, the peer is found to be gone, or the transport needs
	// the endpoint's resources. The endpoint must have been flushed. Drain returns false, and
	// has done nothing, if the transport has no need of it; the caller then calls Close.
	Drain() bool

	// CopyUnsent copies the data that the endpoint still has to send from memory of callers, so
	// that this memory may be reused at once. It does not change when operations complete. It
	// returns false if the transport cannot do that. ucp calls it when a call that waits returns
	// before its send has ended, and so gives the buffer back.
	CopyUnsent() bool
}

// ProcessEndpoint is an Endpoint to a process of this machine. Without it ucp does not know which
// process an endpoint leads to, and cannot close unneeded endpoints when a transport has no room
// for another one. None of the methods makes a system call.
type ProcessEndpoint interface {
	// Process returns the peer's process as of the creation of the endpoint. All lanes of one
	// endpoint of ucp must lead to the same process.
	Process() Process

	// Gone returns the reason why the peer's process or interface is known to be gone, or nil if
	// both may be alive. The function in IfaceParams.Reclaim calls it.
	Gone() error

	// Idle reports whether nothing waits to be sent. The function in IfaceParams.Reclaim calls
	// it.
	Idle() bool
}

// NetworkIface is an Iface whose peers, all or some of them, have addresses in a network. Without
// it ucp cannot compare the addresses that a peer claims with the connection that the claim
// arrived on, and believes the addresses. A transport that has only some of the methods embeds
// BasicNetworkIface.
type NetworkIface interface {
	// PeerAddr returns the socket address that an endpoint to these untrusted addresses would
	// connect to. The result here reports whether addr is an address of this machine, in this
	// network namespace. Malformed addresses return an error. addr is not valid for a peer without
	// an IP address, and has port 0 for transports without ports.
	PeerAddr(p ReachableParams) (addr netip.AddrPort, here bool, err error)

	// ResolveAddress starts to resolve these untrusted addresses on the network, if that is
	// necessary before an endpoint to them can send, and reports whether it has started.
	// Resolution takes long if there is no answer; ucp defers a peer's request meanwhile. If
	// ResolveAddress has started, it calls done once, inside progress; found reports whether the
	// peer can be reached. done is not called if the Iface is closed before.
	ResolveAddress(p ReachableParams, done func(found bool)) bool

	// CanSendOver reports whether a connection made by a peer may be used as
	// EndpointParams.Over, with these untrusted addresses.
	CanSendOver(over *Source, p ReachableParams) bool

	// SecondReachable is like Reachable, for the address of a second address family that the
	// device may have. Without a second address it always fails. ucp calls it for peers that
	// nothing else reaches. NewEndpoint also makes endpoints to these peers, and
	// NetworkEndpoint.InterfaceAddr returns the second address.
	SecondReachable(p ReachableParams) error

	// SecondAddress returns the addresses that peers of the second family need to reach the
	// interface, for packed addresses. ok is false if there is no second address, or if it must
	// not be published.
	SecondAddress() (p ReachableParams, ok bool, err error)

	// Failed returns the reason why the iface as a whole can no longer send or receive, for
	// example because its device was removed, and nil while it can. A failed iface stays failed.
	// Its endpoints fail as if their peers had gone, and ucp does not publish its addresses any
	// more.
	Failed() error
}

// ProcessIface is an Iface whose peers are processes of this machine. Without it an iface of type
// DeviceShared or DeviceSelf is not used toward a peer whose request arrives on a Connection,
// because ucp cannot verify that the addresses are those of the requesting process.
type ProcessIface interface {
	// FindProcess is like Reachable, and also returns the process that the addresses belong to, or
	// 0 if the transport does not know it. If the parameter may is not nil, FindProcess calls it
	// with the process as soon as the process is known from the addresses, before the objects that
	// the addresses name are opened, which a peer can make slow. If the addresses do not contain
	// the process, FindProcess calls the function with 0 before the objects are opened, and with
	// the process afterwards. If the function returns false, the error matches ucs.ErrRejected.
	FindProcess(p ReachableParams, may func(Process) bool) (Process, error)

	// SameLibrary reports whether the peer is known to use this library and not C UCX. ucp then
	// uses what C UCX does not have, such as error handling over shared memory.
	SameLibrary(p ReachableParams) bool

	// FindSenders reports whether a message may still arrive at an iface whose handlers get no
	// Source (IfaceAttr.NoSources), on which no connection ends when a sender is gone. It
	// returns false only if it is certain that no process, including this one, can send any
	// more, and that every message sent has been delivered. It returns an error if it cannot
	// determine this. It may make system calls.
	FindSenders() (bool, error)
}

// Process identifies a process of this machine by its process id and start time, so that a
// reused process id gives a different Process. 0 means none.
type Process uint64

// Connection is a SourceOwner whose peer can be identified, by the kernel or by TLS, and whose
// reading can be paused. Every transport that is reachable from other machines or users needs it:
// without Connection ucp trusts all that a peer says, as it does with a worker's messages to
// itself. SourceInfo, HeldBy and MayListen may make system calls. A property that cannot be
// determined counts as false: not local, no user, not held. A transport that has only some of the
// methods embeds BasicConnection.
type Connection interface {
	// SourceInfo returns the peer's identity. The transport caches the result.
	SourceInfo() SourceInfo

	// SourceTLS returns the connection's TLS state, without a system call.
	SourceTLS() *tls.ConnectionState

	// HeldBy reports whether, according to the kernel, a process of this machine holds the
	// other end of the connection. The transport caches the last result.
	HeldBy(p Process) bool

	// MayListen reports whether a peer on this machine may be the owner of the listener at an
	// address of this machine. It returns false if no socket listens at the address, or if the
	// socket belongs to another user. It returns true if the kernel gives no answer, and for
	// transports without ports. With port 0 it makes no system call.
	MayListen(at netip.AddrPort) bool

	// PauseSource stops delivery from the connection until ResumeSource. Received data stays in
	// the transport's or the system's buffers, so that the peer cannot send without limit. If a
	// handler calls it, the handler's message is the last one delivered. A connection that
	// breaks during a pause is dropped as usual.
	PauseSource()

	// ResumeSource resumes delivery in the next round of progress. No data is lost.
	// ResumeSource itself delivers nothing.
	ResumeSource()
}

// MappedMemory is a MemoryDomain whose keys are names of memory on this machine, which peers map
// and access directly. Without it ucp unpacks keys whichever process has sent them, keeps no
// unpacked key for later messages, and does not revoke access before Deregister.
type MappedMemory interface {
	// UnpackRkeyOf is like UnpackRkey, for a key that process p has sent: a peer could name
	// memory of another process, which this process may access and the peer may not. If the
	// memory does not belong to p, the error matches ucs.ErrUnreachable.
	UnpackRkeyOf(p Process, packed []byte) (*Rkey, error)

	// RkeyCurrent reports whether the packed form of key still names the memory that key has
	// attached. It does not allocate.
	RkeyCurrent(key *Rkey) bool

	// RkeyAbandoned reports whether the owner has freed the memory, so that only the attachment
	// keeps the memory allocated. It may return false because the domain does not know.
	RkeyAbandoned(key *Rkey) bool

	// Revoke makes peers refuse new accesses with unpacked keys of the allocation m. Accesses
	// in progress continue, and RkeyPtr still works. Only Deregister frees the memory; it
	// revokes access if Revoke was not called before.
	Revoke(m MemHandle)
}

// ScopedMemory is a MemoryDomain whose peers need only an address, no key, to access registered
// memory. Access can be limited to one peer. Without it, memory that such a domain has registered
// is open to every peer.
type ScopedMemory interface {
	// Scope returns a peer's scope, made from all addresses that the peer published for this
	// domain's transport. A Scope is made once per endpoint and need not be released. Malformed
	// addresses are left out, so a Scope may admit no peer.
	Scope(peer []ReachableParams) Scope

	// RegisterFor is like Register, for remote access by the peer of s only. In steady state it
	// allocates nothing. A nil Scope admits every peer.
	RegisterFor(buf []byte, access Access, s Scope) (MemHandle, error)

	// Excludes reports whether accesses over the connection src to memory registered for s are
	// refused. It returns false for connections of other domains, and while the answer is not
	// known.
	Excludes(s Scope, src *Source) bool

	// InUse reports whether a peer has begun an operation on registered memory. Deregister
	// would interrupt the operation and break its connection.
	InUse(m MemHandle) bool
}

// Scope is a domain's representation of a peer (ScopedMemory).
type Scope any

// DeviceMemory is a MemoryDomain of a device that accesses memory by keys that are plain numbers:
// unpacking a key attaches nothing, and a key need not be released. Without it ucp exposes no
// newly registered memory to a peer for one message by a key. A domain that has only some of the
// methods embeds NoDeviceMemory.
type DeviceMemory interface {
	// RkeyValue returns the Rkey.Value of a packed key, whose Handle is nil. The bytes are
	// untrusted. It does not allocate.
	RkeyValue(packed []byte) (uint64, error)

	// RegisterDMABuf is like Register, for length bytes of a dma-buf that begin at offset: memory
	// of another device, which its driver exports. Peers use the parameter address as the remote
	// address of the first byte. The descriptor fd may be closed afterwards; Bytes of the handle
	// returns nothing. Without MDFlagRegDmabuf it returns ucs.ErrUnsupported.
	RegisterDMABuf(fd int, offset uint64, length int, address uint64, access Access) (MemHandle, error)

	// AppendExportedKey appends the key with which a domain of the same Attr().GlobalID, in
	// another process on this machine, imports m. Without MDFlagExportedMkey it returns
	// ucs.ErrUnsupported.
	AppendExportedKey(b []byte, m MemHandle) ([]byte, error)

	// ImportKey returns length bytes of memory that an exported key gives access to, until
	// Deregister. The key is untrusted. Without MDFlagExportedMkey it returns
	// ucs.ErrUnsupported.
	ImportKey(key []byte, length int) (MemHandle, error)
}
