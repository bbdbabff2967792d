// Package argscheck has a test and nothing else: the programs of the module print how they are
// used for --help and end with status 0, and they name a wrong argument and end with another.
package argscheck
