// Package ledger counts, for the whole process, the resources that peers make it hold, by source:
// the peer's address as the kernel reports it, or the user of a process of this machine. Code that
// allocates memory, descriptors or time for a peer charges the account of the peer's source. The
// limits are set by that code; this package computes sums and shares.
//
// An account lives as long as a caller has it open, so peers that came and went leave nothing.
// Counting takes no lock; opening and closing, which happen once per connection, take one.
package ledger
