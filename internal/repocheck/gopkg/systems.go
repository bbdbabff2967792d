package gopkg

import (
	"errors"
	"fmt"
	"go/types"
	"strings"
)

// maxErrors is how many of the errors of one system are told.
const maxErrors = 10

// Compiles reports why a module and its tests would not compile for systems, each of which is
// as GOOS/GOARCH. Everything is checked from source, and of what others have written the
// declarations: to compile that for each system takes 20 times as long. What only the
// compiler's later parts and the linker find is not found.
func Compiles(dir string, systems ...string) error {
	var errs []error
	src := newSource()
	for _, system := range systems {
		if err := src.compiles(dir, system); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", system, err))
		}
	}
	return errors.Join(errs...)
}

func (src *source) compiles(dir, system string) error {
	goos, arch, _ := strings.Cut(system, "/")
	sizes := types.SizesFor("gc", arch)
	if sizes == nil {
		return errors.New("there is no such system")
	}
	list, _, err := goList(dir, "ImportPath,Dir,GoFiles,ImportMap,Module,Error", []string{"-deps", "-test", "./..."}, "GOOS="+goos, "GOARCH="+arch)
	if err != nil {
		return err
	}
	var errs []error
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	for _, p := range list { // what is imported comes first
		path, _, _ := strings.Cut(p.ImportPath, " ") // a package made for a test says so
		if path == "unsafe" || strings.HasSuffix(path, ".test") {
			continue // made by the compiler and by go test
		}
		own := p.Module != nil && p.Module.Main
		if p.Error != nil && own {
			errs = append(errs, errors.New(p.Error.Err))
			continue
		}
		conf := types.Config{
			Importer: importFunc(func(path string) (*types.Package, error) {
				if made, ok := p.ImportMap[path]; ok {
					path = made
				}
				if pkg := known[path]; pkg != nil {
					return pkg, nil
				}
				return nil, fmt.Errorf("there is no %s", path)
			}),
			IgnoreFuncBodies: !own,
			Sizes:            sizes,
			Error: func(err error) {
				if own {
					errs = append(errs, err)
				}
			},
		}
		if own {
			conf.GoVersion = "go" + p.Module.GoVersion
		}
		files, err := src.parse(&p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		known[p.ImportPath], _ = conf.Check(path, src.Fset, files, nil)
	}
	if len(errs) > maxErrors {
		errs = append(errs[:maxErrors], fmt.Errorf("and %d more", len(errs)-maxErrors))
	}
	return errors.Join(errs...)
}

type importFunc func(path string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }
