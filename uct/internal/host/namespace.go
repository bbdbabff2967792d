//go:build linux

package host

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
)

// Namespace identifies a process's namespace of one kind. The zero value is the initial
// namespace.
type Namespace struct {
	// Other is true if the namespace is not the machine's initial namespace.
	Other bool

	// Inode is the inode number of the namespace, 0 for the initial namespace. It has 32 bits
	// in the kernel, and in the comparisons of C UCX since 1.22.
	Inode uint32
}

// OwnNamespace returns this process's namespace of a kind.
func OwnNamespace(kind topo.NamespaceKind) Namespace {
	inode, initial := topo.Namespace(kind)
	if initial {
		return Namespace{}
	}
	return Namespace{Other: true, Inode: uint32(inode)}
}

// String describes the namespace for error texts.
func (n Namespace) String() string {
	if !n.Other {
		return "initial"
	}
	return fmt.Sprint(n.Inode)
}

// Sizes of the field with the number of a namespace: C UCX 1.13 uses ino_t, 1.22 a 32-bit
// ucs_sys_ns_t. On little-endian machines both releases can read the wide form with a zero
// upper half, so this library sends the wide form.
const (
	NamespaceLen    = 8
	NamespaceLen122 = 4
)

// Append appends the wide form of the field.
func (n Namespace) Append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(n.Inode))
}

// ParseNamespace parses the field of a namespace other than the initial one, in the form of
// either release. The field must fill b.
func ParseNamespace(b []byte) (Namespace, error) {
	if len(b) != NamespaceLen && len(b) != NamespaceLen122 {
		return Namespace{}, fmt.Errorf("namespace of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	return Namespace{Other: true, Inode: binary.LittleEndian.Uint32(b)}, nil
}
