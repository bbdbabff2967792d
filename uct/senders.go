package uct

// SenderFinder is an Iface that does not tell its peers apart: its handlers get no Source,
// so the end of a connection does not reveal that a sender is gone.
type SenderFinder interface {
	// FindSenders reports whether a message may still arrive. It returns false only if it
	// is certain that no process, this one included, can send any more, and that everything
	// that was sent has been delivered. It returns an error if it cannot find out. It may
	// make system calls.
	FindSenders() (bool, error)
}
