// Package repocheck holds the rules of this repository that a compiler does not
// check, as tests over the source of the whole module: every package says what
// it is for, unsafe stays in files that say so by name, there is no cgo, the
// layers import one another in one direction only, each part does without what
// does not belong there, the files of a package do not call each other in wide
// circles, hot functions are compiled as is claimed, and the documents name what
// there is. It exports nothing.
package repocheck
