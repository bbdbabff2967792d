//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

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

	idFieldBits = 30 // width of the fields for the process id and the descriptor
	idFieldMask = 1<<idFieldBits - 1
)

// defaultDir is the directory of the files of shm_open.
const defaultDir = "/dev/shm"

// idOurs marks the ids of this library's named files: the owner of such a file holds a lock on the
// file as long as the owner is alive.
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
	ns  host.Namespace // PID namespace of the process in the id
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

// appendPosixKey appends a packed key; extra has the bytes that follow the fixed part
// (posix.extra).
func appendPosixKey(b []byte, id, base, length uint64, extra []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint64(b, base)
	b = binary.LittleEndian.AppendUint64(b, length)
	return append(b, extra...)
}

// parsePosixKey parses a peer's key, all of b. If the id needs no directory, C UCX still sends the
// bytes that hold the directory in its addresses, with undefined content. These bytes are ignored.
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

// A peer names memory, and this process opens that memory with its own rights. A peer could name
// memory of another process that the peer cannot open itself, and so make this process read or
// write that memory. So the kernel must confirm that the peer has access to the memory already.

// checkOwner checks that the peer may write to the file that ref names, which the descriptor look
// has open. If ref names a descriptor of a process, the process must have opened that descriptor
// for writing: a descriptor can exist without any right to the file (O_PATH), and opening the file
// here would add that right. A file with a name must be mapped by process pid, as its owner keeps
// it mapped for as long as peers may use it. pid is 0 if the process is not known: the file is then
// not checked.
func checkOwner(ref reference, pid, look int, st *unix.Stat_t, fs *unix.Statfs_t) error {
	if ref.id&idProcFS != 0 {
		pid, fd := procOf(ref.id)
		f, err := host.FileOf(pid, fd)
		if err != nil {
			return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
		}
		if !f.Writable() || !sameFile(f, look, st, fs) {
			return fmt.Errorf("process %d has not opened this file to write: flags %#o: %w", pid, f.Flags, ucs.ErrUnreachable)
		}
		return nil
	}
	if pid == 0 {
		return nil
	}
	if fs.Type == unix.TMPFS_MAGIC {
		mapped, err := host.Maps(pid, uint64(st.Dev), st.Ino)
		switch {
		case mapped:
			return nil
		case err == nil:
			return fmt.Errorf("process %d has not mapped this file: %w", pid, ucs.ErrUnreachable)
		case !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
		}
	}
	// In other file systems the kernel's list of mappings has other numbers than stat, and
	// the kernel does not show the mappings of a process that is protected from tracing.
	if user, ok := host.FileUser(pid); !ok || user != int(st.Uid) {
		return fmt.Errorf("this file belongs to user %d, and process %d to user %d: %w", st.Uid, pid, user, ucs.ErrUnreachable)
	}
	return nil
}

// sameFile reports whether the descriptor look has the file f open, which the kernel showed for a
// descriptor of the peer: the peer may have replaced the file in between. Only files in tmpfs are
// compared, where the inode numbers shown are those of stat.
func sameFile(f host.OpenFile, look int, st *unix.Stat_t, fs *unix.Statfs_t) bool {
	if fs.Type != unix.TMPFS_MAGIC {
		return true
	}
	if f.Inode != 0 && f.Inode != st.Ino {
		return false
	}
	var x unix.Statx_t
	if f.Mount == 0 || unix.Statx(look, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x) != nil || x.Mask&unix.STATX_MNT_ID == 0 {
		return true
	}
	return x.Mnt_id == f.Mount
}
