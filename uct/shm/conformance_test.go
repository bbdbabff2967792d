//go:build linux

package shm

import (
	"os"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// configs are the transports and settings that the tests run with.
var configs = []struct {
	name      string
	component component
	settings  map[string]string
}{
	{"posix", component{posixName}, nil},
	{"posix with names", component{posixName}, map[string]string{"POSIX_USE_PROC_LINK": "n"}},
	{"posix in another directory", component{posixName}, map[string]string{"POSIX_USE_PROC_LINK": "n", "POSIX_DIR": "*"}},
	{"posix with error handling", component{posixName}, map[string]string{"POSIX_ERROR_HANDLING": "y"}},
	{"posix small", component{posixName}, map[string]string{
		"POSIX_FIFO_SIZE": "4", "POSIX_FIFO_ELEM_SIZE": "64", "POSIX_FIFO_MAX_POLL": "1", "MM_RX_MAX_BUFS": "5",
	}},
	{"posix with long buffers", component{posixName}, map[string]string{"POSIX_SEG_SIZE": "64k"}},
	{"posix with buffers of an odd size", component{posixName}, map[string]string{"POSIX_SEG_SIZE": "9"}},
	{"sysv", component{sysvName}, nil},
	{"sysv with long buffers", component{sysvName}, map[string]string{"SYSV_SEG_SIZE": "64k"}},
	{"sysv with buffers of an odd size", component{sysvName}, map[string]string{"SYSV_SEG_SIZE": "100001", "SYSV_FIFO_SIZE": "8"}},
	{"sysv with error handling", component{sysvName}, map[string]string{"SYSV_ERROR_HANDLING": "y", "SYSV_FIFO_RELEASE_FACTOR": "0"}},
}

// setting makes a set of settings; the value * is a new directory in /dev/shm.
func setting(t testing.TB, settings map[string]string) *config.Set {
	t.Helper()
	cfg := new(config.Set)
	for name, value := range settings {
		if value == "*" {
			value = shmDir(t)
		}
		if err := cfg.Modify(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// shmDir returns a directory on a file system in memory, which is removed after the test.
func shmDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(defaultDir, "shm_test_")
	if err != nil {
		t.Skipf("no directory in %s: %v", defaultDir, err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestConformance(t *testing.T) {
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			if race.Enabled && c.settings != nil && c.name != "posix small" {
				t.Skip("where the memory is, and how long its pieces are, is nothing for the race detector")
			}
			logtest.Watch(t)
			noSegments(t)
			ucttest.Run(t, ucttest.Fixture{
				Component:       c.component,
				Config:          setting(t, c.settings),
				SelectiveWakeup: true,
			})
		})
	}
}
