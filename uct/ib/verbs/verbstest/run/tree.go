//go:build linux && (amd64 || arm64)

package run

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// tree has the files that programs see in place of /sys and /dev/infiniband, in a temporary folder.
type tree struct {
	listing string // listing that the tree is made from
	folder  string
	root    int      // descriptor of the folder
	tops    []string // absolute names; all files below them are in the tree
}

// nodes is the folder of the device nodes.
const nodes = "/dev/infiniband"

// newTree makes the tree of a network's listing.
func newTree(listing string) (*tree, error) {
	folder, err := os.MkdirTemp("", "rdma")
	if err != nil {
		return nil, fmt.Errorf("run: a folder for files: %w: %w", err, ucs.ErrIO)
	}
	t := &tree{listing: listing, folder: folder, root: -1}
	err = verbstest.Sysfs(filepath.Join(folder, "sys"), listing)
	if err == nil {
		err = os.MkdirAll(filepath.Join(folder, nodes), 0o755)
	}
	t.tops = append(t.tops, "/sys/class/infiniband", nodes)
	for line := range strings.SplitSeq(listing, "\n") {
		name, _, _ := strings.Cut(line, ": ")
		name, _, _ = strings.Cut(name, " -> ")
		if name, ok := strings.CutPrefix(name, "class/infiniband_verbs/"); ok && err == nil && strings.HasPrefix(name, "uverbs") {
			node, _, _ := strings.Cut(name, "/")
			err = os.WriteFile(filepath.Join(folder, nodes, node), nil, 0o666)
		}
		if top := topOf(name); top != "" {
			t.tops = append(t.tops, "/sys/"+top)
		}
	}
	if err == nil {
		t.root, err = unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		t.remove()
		return nil, fmt.Errorf("run: files of the devices: %w: %w", err, ucs.ErrIO)
	}
	return t, nil
}

// topOf returns the part of a name below which only simulated devices have files; "" if the name is
// below a folder that every tree has.
func topOf(name string) string {
	depth := 2 // devices/pci9000:00
	switch {
	case strings.HasPrefix(name, "class/infiniband"):
		return ""
	case strings.HasPrefix(name, "devices/virtual/"):
		depth = 3
	case strings.HasPrefix(name, "bus/"):
		depth = 4 // bus/pci/devices/9000:01:00.0
	}
	parts := strings.SplitN(name, "/", depth+1)
	if len(parts) < depth {
		return ""
	}
	return strings.Join(parts[:depth], "/")
}

// remove removes the tree. Descriptors of its files that programs have remain valid.
func (t *tree) remove() {
	if t.root >= 0 {
		unix.Close(t.root)
	}
	os.RemoveAll(t.folder)
}

// covers reports whether a file with this name, absolute and clean, belongs to the tree.
func (t *tree) covers(name string) bool {
	for _, top := range t.tops {
		if rest, ok := strings.CutPrefix(name, top); ok && (rest == "" || rest[0] == '/' || top == "/sys/class/infiniband") {
			return true // includes /sys/class/infiniband_verbs, and files of removed devices
		}
	}
	return false
}

// open opens a file of the tree.
func (t *tree) open(name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(t.root, strings.TrimPrefix(name, "/"), &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// rdev returns the device number of a node.
func (t *tree) rdev(node string) uint64 {
	b, err := os.ReadFile(filepath.Join(t.folder, "sys/class/infiniband_verbs", node, "dev"))
	var major, minor uint32
	if err == nil {
		fmt.Sscanf(string(b), "%d:%d", &major, &minor)
	}
	return unix.Mkdev(major, minor)
}

// nodeOf returns the name of the device node to which a file name refers, "" if the file is not in
// the folder of nodes.
func nodeOf(name string) string {
	if path.Dir(name) == nodes {
		return path.Base(name)
	}
	return ""
}

// updateTree makes the tree again if the network has changed. If that fails, the old tree stays.
func (m *Machine) updateTree() {
	listing := m.net.Listing()
	if listing == m.tree.listing {
		return
	}
	if t, err := newTree(listing); err == nil {
		m.tree.remove()
		m.tree = t
	}
}
