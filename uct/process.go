package uct

// Process identifies a process of this machine: its number, and that it is not
// another one that got the number later. 0 is none.
type Process uint64

// ProcessFinder is an Iface whose peers are processes of this machine.
type ProcessFinder interface {
	// FindProcess is Reachable that says which process the addresses lead to. may,
	// unless nil, is asked about the process as soon as it is known which one they speak
	// of, before what they name is opened: a peer can make that take long. Where they do
	// not speak of one, may is asked about process 0, whether to open it nevertheless, and
	// about the process then. Where may says no the error matches ucs.ErrRejected.
	FindProcess(p ReachableParams, may func(Process) bool) (Process, error)
}

// KinFinder is an Iface that can tell whether a peer it reaches is of this library, and
// not of C UCX.
type KinFinder interface {
	Kin(p ReachableParams) bool
}

// ProcessEndpoint is an Endpoint that leads to a process of this machine.
type ProcessEndpoint interface {
	// Process is the process as of the endpoint's creation.
	Process() Process
}

// ProcessKeys is a MemoryDomain whose keys are names of memory on this machine. A
// peer could name memory of somebody else, which this process may touch and the
// peer may not.
type ProcessKeys interface {
	// UnpackRkeyOf is UnpackRkey for a key that a process sent. Memory that is not
	// that process's gives ucs.ErrUnreachable.
	UnpackRkeyOf(p Process, packed []byte) (*Rkey, error)
}
