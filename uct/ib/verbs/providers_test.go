//go:build linux

package verbs_test

// The provider that exists on paper: its folder, and one line here.
import (
	_ "github.com/ucx-go/ucx/uct/ib/verbs/internal/paper"
)
