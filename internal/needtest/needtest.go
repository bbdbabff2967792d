// Package needtest is for tests that need something of the machine: a tool, or a
// right. Where it is missing they are skipped by name. Where scripts/setup has
// provided everything, which REQUIRE_TEST_TOOLS says, a skip would hide that
// something is not tested, and is a failure: of tools always, of rights where the
// tests are run by root.
//
// It also says whether all of many cases are wanted that are like one another.
package needtest

import (
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
)

// set says that the set-up script has run.
var set = os.Getenv("REQUIRE_TEST_TOOLS") != ""

// root says that the process was started by root; some tests become somebody else.
// The root of a user namespace, which maps some users to others, has no rights
// outside of it.
var root = os.Geteuid() == 0 && wholeMachine("/proc/self/uid_map")

// wholeMachine reads a map of users: that of the machine's own namespace has all,
// and leaves them as they are.
func wholeMachine(file string) bool {
	text, err := os.ReadFile(file)
	f := strings.Fields(string(text))
	return err == nil && len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}

// Full says that tests run all of many cases that are like one another: FULL_TESTS is set.
// Else they run what of them differs.
var Full = os.Getenv("FULL_TESTS") != ""

// Tool skips the test because a tool, or something else that can be installed, is
// missing.
func Tool(t testing.TB, what string) {
	t.Helper()
	missing(t, what, set)
}

// Right skips the test because the process may not do something that root may.
func Right(t testing.TB, what string) {
	t.Helper()
	missing(t, what, set && root)
}

// Goroutines skips a test under the race detector in which one goroutine does everything:
// it would take five to ten times as long there, and show nothing.
func Goroutines(t testing.TB) {
	t.Helper()
	if race.Enabled {
		t.Skip("one goroutine does everything, which is nothing for the race detector")
	}
}

func missing(t testing.TB, what string, required bool) {
	t.Helper()
	if required {
		t.Fatalf("missing although the set-up script has run: %s", what)
	}
	t.Skip("missing: " + what)
}
