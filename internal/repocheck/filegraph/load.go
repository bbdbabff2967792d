package filegraph

import "github.com/ucx-go/ucx/internal/repocheck/gopkg"

// Load returns the graphs of the packages that the patterns name, as `go list`
// in dir understands them. Code that does not compile gives the arrows that can
// be seen all the same.
func Load(dir string, patterns ...string) ([]*Graph, error) {
	set, err := gopkg.Load(dir, patterns...)
	if err != nil {
		return nil, err
	}
	var graphs []*Graph
	for _, p := range set.Packages {
		files, pkg, info, err := set.Check(p)
		if err != nil {
			return nil, err
		}
		graphs = append(graphs, newGraph(p.ImportPath, set.Fset, files, pkg, info))
	}
	return graphs, nil
}
