// Package argscheck holds one test: the programs of the module print their usage for --help and
// exit with status 0, and they name a wrong argument and exit with another status.
package argscheck
