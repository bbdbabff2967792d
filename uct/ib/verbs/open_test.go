//go:build linux

package verbs

import (
	"errors"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestOpenDevice checks which node is opened, with nodes that do not exist.
func TestOpenDevice(t *testing.T) {
	root := t.TempDir()
	if _, err := OpenDevice(root, ""); !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("no devices: %v", err)
	}
	for node, name := range map[string]string{"uverbs4011": "b0", "uverbs4009": "b1"} {
		write(t, root, "class/infiniband_verbs/"+node+"/ibdev", name+"\n")
		write(t, root, "class/infiniband_verbs/"+node+"/dev", "231:4000\n")
		write(t, root, "class/infiniband/"+name+"/node_type", "1: CA\n")
	}
	write(t, root, "class/infiniband/b2/node_type", "1: CA\n")
	for name, want := range map[string]string{
		"b0": "/dev/infiniband/uverbs4011", "b1": "/dev/infiniband/uverbs4009", "uverbs4011": "/dev/infiniband/uverbs4011",
		"": "/dev/infiniband/uverbs4009", "b2": "b2 has no node", "b3": "there are [b1 b0 b2]",
	} {
		if c, err := OpenDevice(root, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", name, c, err, want)
		}
	}
	write(t, root, "class/infiniband_verbs/abi_version", "7\n")
	if _, err := OpenDevice(root, "b0"); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("another version of the interface: %v", err)
	}
}
