package config

import (
	"os"
	"strings"
)

// Read takes a snapshot of the settings: defaults, then files, then UCX_* variables, then
// <envPrefix>_UCX_* variables; each source overrides the earlier ones. The files are those of
// searchPath in order and, last, the given one. A missing file is not an error. A malformed line or
// value is an error that matches ucs.ErrInvalidParam and names the file and line, or the variable.
//
// A file may hold <envPrefix>_UCX_* names too. If a variable and a file set the same name, the
// variable takes precedence.
//
// Read also applies the log settings to the process's logger, and logs each name that no section
// knows once per process.
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

// put stores a value in the layer of its name's prefix. Names without one of the prefixes are
// ignored.
func (s *Set) put(prefixes []string, variable, value string, o Origin) {
	for i, p := range prefixes {
		if name, ok := strings.CutPrefix(variable, p); ok && name != "" {
			s.layers[i][name] = entry{name: name, value: value, origin: o}
			return
		}
	}
}

// parse checks that the value of every registered setting parses. It does not call Section.Check,
// whose result may depend on values that later calls of Modify set.
func (s *Set) parse() error {
	for _, sec := range sections() {
		if err := s.Load(sec.Name, sec.New()); err != nil {
			return err
		}
	}
	return nil
}
