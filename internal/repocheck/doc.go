// Package repocheck holds the rules of this repository that a compiler does not
// check, as tests over the source of the whole module: every package says what
// it is for, unsafe stays in files that say so by name, there is no cgo, and the
// layers import one another in one direction only. It exports nothing.
package repocheck
