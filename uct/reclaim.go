package uct

// Reclaimable is an Endpoint whose resources may be needed for another one;
// IfaceParams.Reclaim uses its methods. Neither makes a system call.
type Reclaimable interface {
	// Gone returns the reason why the peer's end is known to be gone, nil if it may be
	// alive.
	Gone() error

	// Idle reports whether nothing waits to be sent.
	Idle() bool
}
