// Graph prints how the files of packages lean on each other by calls: for each
// package its knot, which is the largest set of files that reach each other,
// and the pairs of files that use one another.
//
//	go run ./internal/repocheck/graph [-v] [PACKAGE...]
//
// Without packages it measures the whole module. For a single package, or with
// -v, it names the files of the knots and says why each arrow inside them is
// there: every function with what it uses of the other file. Then come the arrows
// without which the knot would be smallest.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/internal/repocheck/filegraph"
)

func main() {
	verbose := flag.Bool("v", false, "name the files of the knots and the uses that tie them")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	graphs, err := filegraph.Load(".", patterns...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "graph:", err)
		os.Exit(1)
	}
	for _, g := range graphs {
		fmt.Println(g)
		if *verbose || len(graphs) == 1 {
			explain(g)
		}
	}
}

func explain(g *filegraph.Graph) {
	for _, knot := range g.Knots() {
		fmt.Printf("\nknot of %d: %s\n", len(knot), strings.Join(knot, " "))
		for _, a := range g.Inside(knot) {
			mutual := ""
			if len(g.Arrow(a.To, a.From).Uses) > 0 {
				mutual = "  (mutual)"
			}
			fmt.Printf("\t%s -> %s%s\n", a.From, a.To, mutual)
			for _, u := range a.Uses {
				fmt.Printf("\t\t%s:%d: %s uses %s\n", a.From, u.Line, u.From, u.To)
			}
		}
	}
	advise(g)
}

// advise prints the arrows that hold most of the largest knot together.
func advise(g *filegraph.Graph) {
	knot := g.Knot()
	if len(knot) < 3 {
		return
	}
	type cut struct {
		filegraph.Arrow
		left int
	}
	var cuts []cut
	for _, a := range g.Inside(knot) {
		if left := len(g.Without(a).Knot()); left < len(knot) {
			cuts = append(cuts, cut{a, left})
		}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(len(a.Uses), len(b.Uses)))
	})
	if len(cuts) == 0 {
		fmt.Println("\nno single arrow holds the largest knot together")
		return
	}
	fmt.Println("\nthe largest knot without an arrow:")
	for _, c := range cuts[:min(len(cuts), 10)] {
		fmt.Printf("\t%3d  %s -> %s, %d uses\n", c.left, c.From, c.To, len(c.Uses))
	}
}
