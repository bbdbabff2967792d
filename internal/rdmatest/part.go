//go:build linux

package rdmatest

import (
	"fmt"
	"os"
	"testing"
)

// part is the environment variable that has several runs of a test share its cases.
const part = "RDMA_PART"

// Part is the variable as it is for run i of n.
func Part(i, n int) string { return fmt.Sprintf("%s=%d/%d", part, i, n) }

// InPart reports whether a case of a test, by its number, is for this run. All are, unless
// the environment has a Part.
func InPart(t testing.TB, number int) bool {
	t.Helper()
	text := os.Getenv(part)
	if text == "" {
		return true
	}
	var i, n int
	if _, err := fmt.Sscanf(text, "%d/%d", &i, &n); err != nil || i < 0 || i >= n {
		t.Fatalf("%s=%s is not a part", part, text)
	}
	return number%n == i
}
