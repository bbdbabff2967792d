package insn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// ErrNotPermitted is the error of Count if this process may not trace another one.
var ErrNotPermitted = errors.New("ptrace(2) is not permitted here")

// Program is a program to start, and what of it is counted.
type Program struct {
	Path string   // relative to Dir
	Args []string // without the name of the program
	Env  []string
	Dir  string

	// Mark is the function whose calls separate the passages, by its name in the symbol table.
	Mark string

	// Aside lists functions whose instructions are not counted, nor those of the functions that
	// they call. A name that ends in a dot stands for all functions whose names begin so, such as
	// those of a package.
	Aside []string

	// Functions asks for Counts.Functions.
	Functions bool

	noBreakpoint bool // tests: as where the kernel gives none
}

// Counts are the instructions of the passages of a program.
type Counts struct {
	Passages []int // in their order

	// Functions are the instructions of the smallest passage by function, the largest number
	// first. They are there if Program.Functions asks for them.
	Functions []FunctionCount
}

// FunctionCount is the number of instructions that a passage has executed in a function. A name in
// square brackets is that of a file, for code that is in no symbol table.
type FunctionCount struct {
	Name  string
	Count int
}

// Count runs a program to its end and counts the instructions of its passages. The end of ctx kills
// the program. Calls at the same time use different processors, as far as there are enough.
func Count(ctx context.Context, p Program) (*Counts, error) {
	c, said, err := count(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("insn: %s %s: %w%s", p.Path, strings.Join(p.Args, " "), err, said)
	}
	return c, nil
}

// count is Count. It also returns what the program has written, for the text of the error.
func count(ctx context.Context, p Program) (c *Counts, said string, err error) {
	// The thread that starts the program is its tracer. No other thread can wait for the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t, err := start(p)
	if err != nil {
		return nil, "", err
	}
	stop := context.AfterFunc(ctx, t.kill)
	err = t.run()
	if err == nil {
		c, err = t.tallies.counts()
	}
	said = t.close()
	if !stop() {
		err = context.Cause(ctx)
	}
	return c, said, err
}

// Min returns the smallest passage.
func (c *Counts) Min() int { return c.quantile(0) }

// Quartile returns the lower quartile of the passages.
func (c *Counts) Quartile() int { return c.quantile(1) }

// Median returns the median of the passages.
func (c *Counts) Median() int { return c.quantile(2) }

// Max returns the largest passage.
func (c *Counts) Max() int { return c.quantile(4) }

// quantile returns the passage that so many quarters of the others are not larger than.
func (c *Counts) quantile(quarters int) int {
	return slices.Sorted(slices.Values(c.Passages))[(len(c.Passages)-1)*quarters/4]
}

// tallies counts the passages while the program runs.
type tallies struct {
	functions bool   // it counts by function too
	total     uint64 // instructions
	marks     int    // calls of the mark
	now       int    // instructions of this passage
	entered   int    // now, at the time when a function was entered last
	passages  []int
	current   map[string]int // by function, in this passage
	smallest  map[string]int // and in the smallest one
}

// add counts an instruction of a function.
func (c *tallies) add(f *function) {
	c.total++
	c.now++
	if c.functions && c.marks > 0 {
		c.current[f.name]++
	}
}

// enter notes that a function begins.
func (c *tallies) enter() { c.entered = c.now }

// retract takes back the instructions since a function was entered.
func (c *tallies) retract(f *function) {
	n := c.now - c.entered
	c.total -= uint64(n)
	c.now -= n
	if c.functions && c.marks > 0 {
		c.current[f.name] -= n
	}
}

// mark ends a passage and begins the next one. What is before the first mark is no passage.
func (c *tallies) mark() {
	if c.marks++; c.marks > 1 {
		if len(c.passages) == 0 || c.now < slices.Min(c.passages) {
			c.smallest = c.current
		}
		c.passages = append(c.passages, c.now)
	}
	c.now, c.entered, c.current = 0, 0, make(map[string]int)
}

// counts returns what was counted.
func (c *tallies) counts() (*Counts, error) {
	if len(c.passages) == 0 {
		return nil, fmt.Errorf("%d calls of the mark, want 2 or more", c.marks)
	}
	all := &Counts{Passages: c.passages}
	for name, n := range c.smallest {
		all.Functions = append(all.Functions, FunctionCount{name, n})
	}
	slices.SortFunc(all.Functions, func(a, b FunctionCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}
