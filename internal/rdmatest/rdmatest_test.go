//go:build linux

package rdmatest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestFind: devices without a driver here, or without the right to open them, are left out. Any
// other error is returned.
func TestFind(t *testing.T) {
	root := t.TempDir()
	for node, name := range map[string]string{"uverbs0": "mlx5_0", "uverbs1": "rxe0", "uverbs2": "closed0", "uverbs3": "rxe1"} {
		dir := filepath.Join(root, "class/infiniband_verbs", node)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "ibdev"), []byte(name+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	answers := map[string]error{"uverbs0": ucs.ErrUnsupported, "uverbs2": ucs.ErrNoDevice}
	open := func(_, name string) (*verbs.Context, error) {
		if err := answers[name]; err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return verbs.NewContext(verbstest.New().Open(), 0)
	}
	f := find(root, open)
	if !slices.Equal(f.names, []string{"rxe0", "rxe1"}) || f.err != nil || !errors.Is(f.refused, ucs.ErrUnsupported) || !strings.Contains(f.refused.Error(), "uverbs2") {
		t.Errorf("%+v", f)
	}
	answers["uverbs3"] = ucs.ErrIO
	if f := find(root, open); !errors.Is(f.err, ucs.ErrIO) {
		t.Errorf("%+v", f)
	}
	if f := find(t.TempDir(), open); f.names != nil || f.refused != nil || f.err != nil {
		t.Errorf("a machine without: %+v", f)
	}
}

// TestInPart: each case is in exactly one part, and without parts every case runs.
func TestInPart(t *testing.T) {
	count := func() (n int) {
		for number := range 10 {
			if InPart(t, number) {
				n++
			}
		}
		return n
	}
	for i, want := range []int{4, 3, 3} {
		name, value, _ := strings.Cut(Part(i, 3), "=")
		t.Setenv(name, value)
		if n := count(); n != want {
			t.Errorf("part %d: %d cases, not %d", i, n, want)
		}
	}
	t.Setenv(part, "")
	if n := count(); n != 10 {
		t.Errorf("%d cases", n)
	}
}
