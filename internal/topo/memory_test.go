package topo

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMemory: the result is the machine's memory, or the limit of a control group of either version
// if that is less.
func TestMemory(t *testing.T) {
	const machine = "MemTotal:       16000 kB\nMemFree:  100 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"nothing": {nil, 0},
		"machine": {map[string]string{"proc/meminfo": machine}, 16000 << 10},
		"nonsense": {map[string]string{
			"proc/meminfo": "MemTotal: -5 kB\nMemTotal: 99999999999999999999 kB\nMemTotal:", "proc/self/cgroup": "0:\n::\n0::x",
			"sys/fs/cgroup/x/memory.max": "-1",
		}, 0},
		"v2": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "5000000\n",
		}, 5000000},
		"v2, less below": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "4000000\n", "sys/fs/cgroup/a/memory.max": "5000000\n",
		}, 4000000},
		"v2 in a container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "3000000\n",
		}, 3000000},
		"v1": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "7:cpu:/x\n5:hugetlb,memory:/docker/1\n0::/\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "6000000\n",
		}, 6000000},
		"v1 in a container, path of outside": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "7000000\n",
		}, 7000000},
		"v1 without a limit": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 16000 << 10},
		"a path that leads out": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/../../secret\n", "memory.max": "1\n", "secret/memory.max": "1\n",
			"sys/fs/cgroup/memory.max": "8000000\n",
		}, 8000000},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range test.files {
				file = filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := readMemory(root); got != test.want {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
	if n := Memory(); n == 0 {
		t.Error("no memory on this machine")
	}
}
