package main

import (
	"os"
	"testing"
)

// asCommand makes the test binary run as ucx_info, for tests that need a process.
const asCommand = "INFO_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
