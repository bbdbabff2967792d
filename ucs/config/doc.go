// Package config reads UCX settings: UCX_* variables, ucx.conf files and calls
// to Modify, with C UCX's names, units and lists.
//
// A package that has settings declares a struct whose fields carry tags and registers it as a
// Section. A package that needs the values calls Set.Load, which fills such a struct. A Set is a
// snapshot: later changes of the environment or of files do not reach it.
//
// Variables and files are untrusted input: their sizes are bounded, and a
// malformed value is an error that names the setting, the value, where it came
// from and what is allowed.
package config
