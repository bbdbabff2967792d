package uct

// Reclaimable is an Endpoint that takes room which may be needed for another one: what
// IfaceParams.Reclaim has to know of it. Both take no system call.
type Reclaimable interface {
	// Gone is why the peer's end is known to be gone, nil where it may be there.
	Gone() error

	// Idle reports whether nothing waits to be sent.
	Idle() bool
}
