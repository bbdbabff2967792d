// Package race says whether the program was built with the race detector, and reports to the
// detector synchronization that it does not see: through memory that other processes or devices
// share.
//
// The detector allocates, and is slow: tests of allocations are skipped under it, and tests that
// repeat their work repeat it less.
package race
