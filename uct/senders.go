package uct

// SenderFinder is an Iface that does not tell its peers apart: its handlers get no
// Source, so nobody learns from the end of one that a sender is gone.
type SenderFinder interface {
	// FindSenders reports whether a message may still come: false only if it is
	// certain that nobody is left who could send one, in other processes or in this
	// one, and that everything that was sent has been delivered. With an error it
	// cannot be found out. It may make system calls.
	FindSenders() (bool, error)
}
