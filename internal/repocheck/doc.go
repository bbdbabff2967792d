// Package repocheck holds the rules of this repository that the compiler does not check, as tests
// over the source of the whole module: every package has a package comment, unsafe is used only in
// files that have it in their names, there is no cgo, the layers import one another in one
// direction only, each part avoids the imports and functions that do not belong there, the files of
// a package do not call each other in large cycles, hot functions compile as claimed, and the
// documents name existing things. It exports nothing.
package repocheck
