package topo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

// TestFoldBootID uses bytes that a C process of 1.22.0 published: a boot id and the device address
// of posix.
func TestFoldBootID(t *testing.T) {
	const bit63 = 1 << 63
	id, ok := foldBootID("fb41b4f6-0e6d-48f8-a5ff-c88fc2626c30\n")
	if want := uint64(0x78946caf74891109); !ok || id&^bit63 != want {
		t.Errorf("id = %#x, %v; want %#x", id, ok, want)
	}
	for _, bad := range []string{
		"", "x", "fb41b4f6-0e6d-48f8-a5ff-c88fc2626c3", "fb41b4f6-0e6d-48f8-a5ff-c88fc2626c3g",
		"fb41b4f6-0e6d-48f8-a5ffc-88fc2626c30", "fb41b4f6-0e6d-48f8-a5ff-c88fc2626c3-",
	} {
		if id, ok := foldBootID(bad); ok {
			t.Errorf("foldBootID(%q) = %#x, want a refusal", bad, id)
		}
	}
}

func FuzzFoldBootID(f *testing.F) {
	f.Add("fb41b4f6-0e6d-48f8-a5ff-c88fc2626c30\n")
	fuzztest.Run(f, func(t *testing.T, s string) { foldBootID(s) })
}

func TestSystemIDWithoutBootID(t *testing.T) {
	if a, b := readSystemID(t.TempDir()), readSystemID(t.TempDir()); a != b {
		t.Errorf("two readings differ: %#x, %#x", a, b)
	}
	// The sum of primes times words, calculated by hand for a name of two words.
	const mac, w1, w2 = 0x0605040302ff, 0x6867666564636261, 0x69
	want := hashPrimes[0]*mac + hashPrimes[1]*w1 + hashPrimes[2]*w2
	if got := hashMachine(mac, "abcdefghi.example.org"); got != want {
		t.Errorf("hash = %#x, want %#x", got, want)
	}
	long := fmt.Sprintf("%0200d", 1)
	hashMachine(0, long) // longer than any host name: there are no more primes
}

func TestSystemID(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skipf("no boot id in /proc: %v", err)
	}
	want, ok := foldBootID(string(text))
	if got := SystemID(); !ok || got != want {
		t.Errorf("SystemID = %#x, want %#x of %q", got, want, text)
	}
}

func TestNamespace(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "proc/self/ns")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"ipc":  "ipc:[4026531839]",
		"net":  "net:[4026531833]", // the initial one, on a kernel with this number
		"mnt":  "mnt:[4026531840]",
		"pid":  "pid:[4026532301]",
		"user": "nonsense",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		kind    NamespaceKind
		inode   uint64
		initial bool
	}{
		{NamespaceIPC, 4026531839, true},
		{NamespaceNet, 4026531833, false},
		{NamespaceMount, 4026531840, true},
		{NamespacePID, 4026532301, false},
		{NamespaceUser, 0xeffffffd, true}, // unreadable text
		{NamespaceUTS, 0xeffffffe, true},  // no such link
	} {
		inode, initial := readNamespace(root, tc.kind)
		if inode != tc.inode || initial != tc.initial {
			t.Errorf("%s: %d, %v; want %d, %v", namespaces[tc.kind].name, inode, initial, tc.inode, tc.initial)
		}
	}
}

func TestNamespaceOfThisProcess(t *testing.T) {
	for kind := range namespaces {
		link, err := os.Readlink("/proc/self/ns/" + namespaces[kind].name)
		if err != nil {
			t.Skipf("no namespaces in /proc: %v", err)
		}
		inode, _ := Namespace(NamespaceKind(kind))
		if want := fmt.Sprintf("%s:[%d]", namespaces[kind].name, inode); link != want {
			t.Errorf("%s, want %s", want, link)
		}
	}
}
