package config

import (
	"os"
	"strings"
)

// Read takes a snapshot of the settings: defaults, then files, then UCX_*
// variables, then <envPrefix>_UCX_* variables; each overrides what comes before.
// The files are those of searchPath in order and, last, the given one. A missing
// file is not an error. A malformed line or value is: it matches
// ucs.ErrInvalidParam and names the place.
//
// Files and variables are equals in names: a file may hold <envPrefix>_UCX_*
// names too, and of one name the variable counts.
//
// Read also makes the process log as much as LOG_LEVEL says and reports names
// that no section knows, once each.
func Read(envPrefix, file string) (*Set, error) {
	prefixes := []string{defaultPrefix}
	if envPrefix != "" {
		prefixes = append(prefixes, strings.TrimSuffix(envPrefix, "_")+"_"+defaultPrefix)
	}
	s := &Set{prefix: prefixes[len(prefixes)-1]}
	for range prefixes {
		s.layers = append(s.layers, make(layer))
	}
	paths := searchPath(os.Getenv, os.Executable)
	if file != "" {
		paths = append(paths, file)
	}
	for _, path := range paths {
		if err := readFile(path, &host{root: "/"}, func(variable, value string, o Origin) {
			s.put(prefixes, variable, value, o)
		}); err != nil {
			return nil, err
		}
	}
	for _, kv := range os.Environ() {
		if variable, value, ok := strings.Cut(kv, "="); ok {
			s.put(prefixes, variable, value, Origin{Kind: FromEnv, Variable: variable})
		}
	}
	if err := s.parse(); err != nil {
		return nil, err
	}
	if err := s.applyGlobal(); err != nil {
		return nil, err
	}
	s.reportUnknown()
	return s, nil
}

// put stores a value in the layer its name belongs to; other names are not
// ours.
func (s *Set) put(prefixes []string, variable, value string, o Origin) {
	for i, p := range prefixes {
		if name, ok := strings.CutPrefix(variable, p); ok && name != "" {
			s.layers[i][name] = entry{name: name, value: value, origin: o}
			return
		}
	}
}

// parse parses every value some section knows. What Check says besides may depend on values that
// are set later by calls.
func (s *Set) parse() error {
	for _, sec := range sections() {
		if err := s.Load(sec.Name, sec.New()); err != nil {
			return err
		}
	}
	return nil
}
