//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/internal/getopt"
)

// runBatches runs the tests of batch files. With several files each test of the
// first is run with the options of each line of the second, and so on. Both
// sides read the same files.
func runBatches(g group, base *params, files []string, out *printer) error {
	if len(files) == 0 {
		p := *base
		out.testName()
		if err := adjust(&p); err != nil {
			return err
		}
		return runTest(g, &p, out)
	}
	f, err := os.Open(files[0])
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		p := *base
		p.Sizes = slices.Clone(base.Sizes)
		if err := batchLine(&p, words[1:]); err != nil {
			return fmt.Errorf("%s, line %d: %w", files[0], n, err)
		}
		out.names = append(out.names, words[0])
		if err := runBatches(g, &p, files[1:], out); err != nil {
			return fmt.Errorf("%s, line %d: %w", files[0], n, err)
		}
		out.names = out.names[:len(out.names)-1]
	}
	return lines.Err()
}

// batchLine applies the options of a line to p.
func batchLine(p *params, words []string) error {
	args := getopt.New(words, testLetters, nil)
	for {
		opt, value, err := args.Next()
		if err != nil {
			return err
		}
		if opt == "" {
			return p.Validate()
		}
		if err := setTestOption(p, opt, value); err != nil {
			return err
		}
	}
}
