// Package doccheck holds the documents in docs to the code. Its tests compare
// docs/from-c.md with the names that the packages export and with those of C UCX,
// run the programs in it, and compare docs/settings.md with what the settings say
// of themselves.
//
//	go test ./internal/doccheck -update     writes docs/settings.md anew
package doccheck
