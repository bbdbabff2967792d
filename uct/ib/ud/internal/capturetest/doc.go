// Package capturetest is sessions of C UCX's ud_verbs as they were seen on the wire, for
// the tests of the packages beside it. Each file of testdata says at its head which
// release, on what, and above each session what was run.
package capturetest
