// Graph prints how the files of packages lean on each other by calls: for each
// package its knot, which is the largest set of files that reach each other,
// and the pairs of files that use one another.
//
//	go run ./internal/repocheck/graph [-v] [PACKAGE...]
//
// Without packages it measures the whole module. For a single package, or with
// -v, it names the files of the knots and says why each arrow inside them is
// there: every function with what it uses of the other file.
package main

import (
	"flag"
	"fmt"
	"os"
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
}
