// Package doccheck compares the documents in docs with the code. Its tests compare docs/from-c.md
// with the names that the packages export and with those of C UCX, run the programs in it, and
// compare docs/settings.md with the descriptions in the settings' struct tags.
//
//	go test ./internal/doccheck -update     rewrites docs/settings.md
package doccheck
