// Package capturetest holds sessions of C UCX's ud_verbs as captured on the wire, for the tests of
// the sibling packages. The head of each testdata file names the release and the system that were
// captured; a line above each session names the operations that were run.
package capturetest
