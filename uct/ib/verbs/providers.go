//go:build linux

package verbs

// The providers there are: one line each.
import (
	_ "github.com/ucx-go/ucx/uct/ib/verbs/internal/mlx5"
	_ "github.com/ucx-go/ucx/uct/ib/verbs/internal/rxe"
)
