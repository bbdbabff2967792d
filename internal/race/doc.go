// Package race says whether the program was built with the race detector, and
// tells the detector of hand-overs that it does not see: those through memory that
// other processes or devices share.
//
// The detector allocates, and is slow: tests of allocations are skipped under it,
// and what is repeated for the sake of thoroughness is repeated less.
package race
