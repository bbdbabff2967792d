package uct

// Process identifies a process of this machine by its process id and start, so that a
// reused id is another Process. 0 means none.
type Process uint64

// ProcessFinder is an Iface whose peers are processes of this machine.
type ProcessFinder interface {
	// FindProcess is Reachable that also returns the process that the addresses belong to.
	// may, unless nil, is called with the process as soon as the addresses tell it, before
	// the objects that they name are opened: a peer can make that slow. If the addresses do
	// not tell the process, may is called with 0 before the objects are opened, and with
	// the process afterwards. If may returns false the error matches ucs.ErrRejected.
	FindProcess(p ReachableParams, may func(Process) bool) (Process, error)
}

// KinFinder is an Iface that can tell whether a peer that it reaches uses this library or C
// UCX.
type KinFinder interface {
	Kin(p ReachableParams) bool
}

// ProcessEndpoint is an Endpoint to a process of this machine.
type ProcessEndpoint interface {
	// Process returns the process as of the endpoint's creation.
	Process() Process
}

// ProcessKeys is a MemoryDomain whose keys are names of memory on this machine. A peer
// could name memory of another process, which this process may access and the peer may not.
type ProcessKeys interface {
	// UnpackRkeyOf is UnpackRkey for a key that process p has sent. Memory that does not
	// belong to p gives ucs.ErrUnreachable.
	UnpackRkeyOf(p Process, packed []byte) (*Rkey, error)
}
