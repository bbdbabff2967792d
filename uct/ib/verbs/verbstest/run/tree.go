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

// tree is what programs see of /sys and /dev/infiniband: files in a folder.
type tree struct {
	listing string // that it is made from
	folder  string
	root    int      // the folder
	tops    []string // names that it has all below of
}

// Where devices are open from.
const nodes = "/dev/infiniband"

// plant makes the tree that a network says it has.
func plant(listing string) (*tree, error) {
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
		t.fell()
		return nil, fmt.Errorf("run: files of the devices: %w: %w", err, ucs.ErrIO)
	}
	return t, nil
}

// topOf is the part of a name that nothing else has than devices that are made up; "" if
// that is what all trees have.
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

// fell removes the tree. Descriptors that programs have stay good.
func (t *tree) fell() {
	if t.root >= 0 {
		unix.Close(t.root)
	}
	os.RemoveAll(t.folder)
}

// covers reports whether a file of a name, absolute and clean, is looked for in the tree.
func (t *tree) covers(name string) bool {
	for _, top := range t.tops {
		if rest, ok := strings.CutPrefix(name, top); ok && (rest == "" || rest[0] == '/' || top == "/sys/class/infiniband") {
			return true // /sys/class/infiniband_verbs too, and what there is no more of
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

// rdev reads the number of a device's node.
func (t *tree) rdev(node string) uint64 {
	b, err := os.ReadFile(filepath.Join(t.folder, "sys/class/infiniband_verbs", node, "dev"))
	var major, minor uint32
	if err == nil {
		fmt.Sscanf(string(b), "%d:%d", &major, &minor)
	}
	return unix.Mkdev(major, minor)
}

// nodeOf is the name of the node that a file's name is of, "" if it is not in their
// folder.
func nodeOf(name string) string {
	if path.Dir(name) == nodes {
		return path.Base(name)
	}
	return ""
}

// renew makes the tree again if the network has changed. What cannot be made stays as it
// was.
func (m *Machine) renew() {
	listing := m.net.Listing()
	if listing == m.tree.listing {
		return
	}
	if t, err := plant(listing); err == nil {
		m.tree.fell()
		m.tree = t
	}
}
