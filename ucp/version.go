package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// The release of the C API whose behavior and names this package follows.
const (
	apiMajor   = 1
	apiMinor   = 22
	apiRelease = 0
)

// Version returns the release of the UCX API this package implements.
func Version() (major, minor, release int) { return apiMajor, apiMinor, apiRelease }

// VersionString returns Version as "major.minor.release".
func VersionString() string { return fmt.Sprintf("%d.%d.%d", apiMajor, apiMinor, apiRelease) }

// LibraryAttr describes the library.
type LibraryAttr struct {
	MaxThreadMode ucs.ThreadMode // the highest thread mode that a worker can have
}

// Library describes the library. It needs no context.
func Library() LibraryAttr { return LibraryAttr{MaxThreadMode: maxThreadMode} }
