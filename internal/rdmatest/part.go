//go:build linux

package rdmatest

import (
	"fmt"
	"os"
	"testing"
)

// part is the environment variable that splits the cases of a test between several runs.
const part = "RDMA_PART"

// Part returns the setting of that environment variable for run i of n.
func Part(i, n int) string { return fmt.Sprintf("%s=%d/%d", part, i, n) }

// InPart reports whether this run includes the case with that number. Without the environment
// variable it includes all cases.
func InPart(t testing.TB, number int) bool {
	t.Helper()
	text := os.Getenv(part)
	if text == "" {
		return true
	}
	var i, n int
	if _, err := fmt.Sscanf(text, "%d/%d", &i, &n); err != nil || i < 0 || i >= n {
		t.Fatalf("%s=%s is not PART/PARTS", part, text)
	}
	return number%n == i
}
