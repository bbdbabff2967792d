//go:build linux

package host

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
)

// Namespace says where a process is among the namespaces of one kind. The zero
// value is the initial namespace.
type Namespace struct {
	// Other says that it is not the machine's initial namespace.
	Other bool

	// Inode is its number, 0 for the initial one: 32 bits, as the kernel gives
	// them and as C UCX compares them since 1.22.
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
		return "the initial one"
	}
	return fmt.Sprint(n.Inode)
}

// Sizes of the field that carries the number of a namespace: C UCX 1.13 has
// ino_t, 1.22 a 32-bit ucs_sys_ns_t. On little-endian machines the wide form
// with upper half zero serves both, so it is the one to send.
const (
	NamespaceLen    = 8
	NamespaceLen122 = 4
)

// Append appends the wide form of the field.
func (n Namespace) Append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(n.Inode))
}

// ParseNamespace reads the field of a namespace other than the initial one, all
// of b, in the form of either release.
func ParseNamespace(b []byte) (Namespace, error) {
	if len(b) != NamespaceLen && len(b) != NamespaceLen122 {
		return Namespace{}, fmt.Errorf("namespace of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	return Namespace{Other: true, Inode: binary.LittleEndian.Uint32(b)}, nil
}
