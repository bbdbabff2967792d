// Package ledger counts, for the whole process, what peers make it hold, by who
// they are: the address that the kernel names, or the user of a process of this
// machine. Whoever has something that costs memory, descriptors or time charges it
// to the account of who made it necessary. How much there may be is for them to
// decide; sums and shares are here.
//
// An account lives as long as somebody has it open, so peers that came and went
// leave nothing. Counting takes no lock; opening and closing, which happen once a
// connection, do.
package ledger
