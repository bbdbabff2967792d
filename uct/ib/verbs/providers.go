//go:build linux

package verbs

// Imports of the providers, which register themselves.
import (
	_ "github.com/ucx-go/ucx/uct/ib/verbs/internal/mlx5"
	_ "github.com/ucx-go/ucx/uct/ib/verbs/internal/rxe"
)
