//go:build linux

package shm

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// Ids of posix segments (src/uct/sm/mm/posix/mm_posix.c).
const (
	idProcFS  = 1 << 63 // UCT_POSIX_SEG_FLAG_PROCFS: file descriptor of a process
	idShmOpen = 1 << 62 // UCT_POSIX_SEG_FLAG_SHM_OPEN: file in /dev/shm
	idHugeTLB = 1 << 61 // UCT_POSIX_SEG_FLAG_HUGETLB
	idPIDNS   = 1 << 60 // UCT_POSIX_SEG_FLAG_PID_NS: the namespace is in the address
	idFlags   = idProcFS | idShmOpen | idHugeTLB | idPIDNS

	idFieldBits = 30 // of process and descriptor
	idFieldMask = 1<<idFieldBits - 1
)

// defaultDir is the directory of the files of shm_open.
const defaultDir = "/dev/shm"

// idOurs marks the ids of this library's named files: the owner of such a file holds a lock on
// the file while the owner lives.
const idOurs = 1 << 59

// procID returns the id for descriptor fd of process pid.
func procID(pid, fd int, ns host.Namespace) uint64 {
	id := idProcFS | idShmOpen | uint64(fd)<<idFieldBits | uint64(pid)
	if ns.Other {
		id |= idPIDNS
	}
	return id
}

// procOf returns the process and the descriptor of an id with idProcFS.
func procOf(id uint64) (pid, fd int) {
	return int(id & idFieldMask), int(id >> idFieldBits & idFieldMask)
}

// fileName returns the file name of an id without idProcFS.
func fileName(id uint64) string { return fmt.Sprintf("ucx_shm_posix_%x", id&^idFlags) }

// posixAddr is an interface address of posix.
type posixAddr struct {
	ref reference
	ns  host.Namespace // of the process in the id
}

// parsePosixAddr parses a peer's interface address, all of b.
func parsePosixAddr(b []byte) (posixAddr, error) {
	var a posixAddr
	if len(b) < 8 {
		return a, fmt.Errorf("interface address of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	a.ref.id = binary.LittleEndian.Uint64(b)
	rest := b[8:]
	switch id := a.ref.id; {
	case id&idProcFS != 0 && id&idPIDNS != 0:
		ns, err := host.ParseNamespace(rest)
		if err != nil {
			return a, fmt.Errorf("interface address of %d bytes: %w", len(b), err)
		}
		a.ns = ns
		return a, nil
	case id&(idProcFS|idShmOpen) == 0:
		dir, err := parseDir(rest)
		a.ref.dir = dir
		return a, err
	}
	if len(rest) != 0 {
		return a, fmt.Errorf("interface address of %d bytes, not 8: %w", len(b), ucs.ErrInvalidAddr)
	}
	return a, nil
}

// maxDir bounds the length of a directory's name.
const maxDir = 1024

// parseDir parses the name of a directory, all of b, that ends with a zero byte.
func parseDir(b []byte) (string, error) {
	if len(b) <= maxDir+1 {
		dir, rest, ok := strings.Cut(string(b), "\x00")
		if ok && rest == "" && strings.HasPrefix(dir, "/") && filepath.Clean(dir) == dir {
			return dir, nil
		}
	}
	return "", fmt.Errorf("malformed segment directory of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
}

// posixKeyLen is the length of the fixed part of a packed key (uct_posix_packed_rkey_t).
const posixKeyLen = 24

// appendPosixKey appends a packed key; extra is the mapper data that follows.
func appendPosixKey(b []byte, id, base, length uint64, extra []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint64(b, base)
	b = binary.LittleEndian.AppendUint64(b, length)
	return append(b, extra...)
}

// parsePosixKey parses a peer's key, all of b. If the id needs no directory, C UCX leaves as
// many bytes behind the key as its addresses have there, with undefined content; these are
// ignored.
func parsePosixKey(b []byte) (key, error) {
	var k key
	if len(b) < posixKeyLen || len(b) > posixKeyLen+maxDir+1 {
		return k, fmt.Errorf("remote key of %d bytes: %w", len(b), ucs.ErrInvalidParam)
	}
	k.ref.id = binary.LittleEndian.Uint64(b)
	k.base = binary.LittleEndian.Uint64(b[8:])
	k.length = binary.LittleEndian.Uint64(b[16:])
	if k.ref.id&(idProcFS|idShmOpen) == 0 {
		dir, err := parseDir(b[posixKeyLen:])
		if err != nil {
			return k, err
		}
		k.ref.dir = dir
	}
	if k.length == 0 || k.base+k.length < k.base {
		return k, fmt.Errorf("remote key for %d bytes at %#x: %w", k.length, k.base, ucs.ErrInvalidParam)
	}
	return k, nil
}
