package topo

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// NamespaceKind is a kind of namespace of the Linux kernel.
type NamespaceKind uint8

// Namespace kinds, in the order of ucs_sys_namespace_type_t.
const (
	NamespaceIPC NamespaceKind = iota
	NamespaceMount
	NamespaceNet
	NamespacePID
	NamespaceUser
	NamespaceUTS
)

// namespaces holds the names of the links in /proc/self/ns and the inodes that C UCX regards as
// those of the initial namespaces (ucs_sys_namespace_info in src/ucs/sys/sys.c). Newer kernels also
// have fixed numbers for mnt and net (linux/nsfs.h), which differ from C UCX's; equality with C UCX
// matters here, not correctness.
var namespaces = [...]struct {
	name    string
	initial uint64
}{
	NamespaceIPC:   {"ipc", 0xefffffff},
	NamespaceMount: {"mnt", 0xf0000000},
	NamespaceNet:   {"net", 0xf0000080},
	NamespacePID:   {"pid", 0xeffffffc},
	NamespaceUser:  {"user", 0xeffffffd},
	NamespaceUTS:   {"uts", 0xeffffffe},
}

// Namespace returns the inode number of this process's namespace of a kind, and whether C UCX would
// regard it as the machine's initial one. Addresses carry the number only if it would not. If the
// kernel does not report it, the namespace counts as the initial one. The result is for the
// process's main thread, because the calling thread may be in another namespace.
func Namespace(kind NamespaceKind) (inode uint64, initial bool) {
	return readNamespace("/", kind)
}

// readNamespace is Namespace for a file system at root.
func readNamespace(root string, kind NamespaceKind) (inode uint64, initial bool) {
	ns := namespaces[kind]
	target, err := os.Readlink(filepath.Join(root, "proc/self/ns", ns.name))
	if err != nil {
		return ns.initial, true
	}
	// "net:[4026531833]"
	_, number, _ := strings.Cut(target, "[")
	n, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	if err != nil {
		return ns.initial, true
	}
	return n, n == ns.initial
}
