package insn

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/needtest"
)

// loop is the program testdata/loop.
func loop(t *testing.T) Program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "loop")
	if out, err := exec.Command("go", "build", "-o", path, "./testdata/loop").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return Program{
		Dir: filepath.Dir(path), Path: "./" + filepath.Base(path),
		Mark: "main.mark.abi0", Aside: []string{"main.aside.abi0"}, Functions: true,
	}
}

// in returns the program in one of its modes.
func (p Program) in(mode string) Program {
	p.Args = []string{mode}
	return p
}

// count skips the test where ptrace is not permitted.
func (p Program) count(t *testing.T, ctx context.Context) (*Counts, error) {
	t.Helper()
	c, err := Count(ctx, p)
	if errors.Is(err, ErrNotPermitted) {
		needtest.Call(t, err.Error())
	}
	return c, err
}

func TestCount(t *testing.T) {
	p := loop(t)
	for mode, check := range map[string]func(t *testing.T, c *Counts){
		"passages": func(t *testing.T, c *Counts) {
			// A return from mark; MOVQ; 100 times DECQ and JNZ; LEAQ, MOVQ, XORL, STOSQ, RDTSC; the call
			// of aside, which is not counted; DECQ, JGE; the call of mark.
			const each = 1 + 1 + 2*100 + 5 + 1 + 2 + 1
			want := &Counts{
				Passages:  []int{each, each, each, each},
				Functions: []FunctionCount{{"main.passages.abi0", each - 1}, {"main.mark.abi0", 1}},
			}
			if diff := cmp.Diff(want, c); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		},
		"stack": func(t *testing.T, c *Counts) {
			// The first passage grows the stack, the others find it grown.
			if len(c.Passages) != 4 || c.Min() != c.Max() || c.Min() < 1000 {
				t.Errorf("passages of %d instructions", c.Passages)
			}
		},
		"clock": func(t *testing.T, c *Counts) {}, // it has looked at the clock itself
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c, err := p.in(mode).count(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			check(t, c)
		})
	}
}

// TestNoBreakpoint steps aside.
func TestNoBreakpoint(t *testing.T) {
	p := loop(t).in("passages")
	want, err := p.count(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.noBreakpoint = true
	got, err := p.count(t, t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("-want +got:\n%s%v", diff, err)
	}
}

func TestCountFails(t *testing.T) {
	p := loop(t)
	unmarked := p.in("passages")
	unmarked.Mark = "main.nothing"
	missing := p
	missing.Path = "./nothing"
	for name, tc := range map[string]struct {
		p    Program
		want string
	}{
		"no mark":     {unmarked, "insn: ./loop passages: no function main.nothing"},
		"one mark":    {p.in("once"), "1 calls of the mark"},
		"never":       {p.in("never"), "0 calls of the mark"},
		"no getppid":  {p.in("other"), "no thread has called getppid\nno mode other"},
		"exit status": {p.in("fails"), "insn: ./loop fails: exit status 3"},
		"no program":  {missing, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := tc.p.count(t, t.Context())
			if c != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, %v; want %q", c, err, tc.want)
			}
		})
	}
}

func TestCanceled(t *testing.T) {
	p := loop(t)
	before, cancel := context.WithCancel(t.Context())
	cancel()
	after, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, ctx := range []context.Context{before, after} {
		if c, err := p.in("endless").count(t, ctx); c != nil || !errors.Is(err, ctx.Err()) {
			t.Errorf("%v, %v; want %v", c, err, ctx.Err())
		}
	}
}

func TestQuantiles(t *testing.T) {
	c := &Counts{Passages: []int{9, 5, 6, 3, 4, 8, 2, 7, 1}}
	if c.Min() != 1 || c.Quartile() != 3 || c.Median() != 5 || c.Max() != 9 {
		t.Errorf("%d %d %d %d", c.Min(), c.Quartile(), c.Median(), c.Max())
	}
	c.Passages = c.Passages[:1]
	if c.Min() != 9 || c.Quartile() != 9 || c.Median() != 9 || c.Max() != 9 {
		t.Errorf("%d %d %d %d", c.Min(), c.Quartile(), c.Median(), c.Max())
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]kind{
		"\x0f\x05":             kindCall,
		"\x0f\x31":             kindCounter,
		"\x0f\x01\xf9":         kindCounterID,
		"\x0f\x01\xf8":         kindPlain, // swapgs
		"\xf3\xa4":             kindRepeated,
		"\xf3\x48\xab":         kindRepeated, // rep stosq
		"\x66\xf2\xaf":         kindRepeated, // repne scasw
		"\xa4":                 kindPlain,    // one movsb
		"\xf3\x0f\x6f\x06":     kindPlain,    // movdqu
		"\xf3\x90":             kindPlain,    // pause
		"\x48\x89\xc3\xf3\xa4": kindPlain,    // mov, and another instruction behind
	} {
		var b [8]byte
		copy(b[:], text)
		if got := kindOf(b); got != want {
			t.Errorf("% x: %d, want %d", text, got, want)
		}
	}
}
