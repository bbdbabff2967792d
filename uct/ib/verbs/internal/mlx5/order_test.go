//go:build linux

package mlx5

import (
	"os/exec"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// TestOrder runs the tests of the order of stores and barriers, which need a build tag.
func TestOrder(t *testing.T) {
	needtest.Goroutines(t)
	if testing.Short() {
		t.Skip("it compiles the package once more")
	}
	if _, err := exec.LookPath("go"); err != nil {
		needtest.Tool(t, err.Error())
	}
	cmd := exec.Command("go", "test", "-tags", "mlx5trace", "-run", "^TestTrace", "-count=1", ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
