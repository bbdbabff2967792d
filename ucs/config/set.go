package config

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/ucs"
)

// defaultPrefix precedes the name of every setting in the environment and in files.
const defaultPrefix = "UCX_"

// Set is a snapshot of settings. It remembers where each value came from. A nil
// *Set stands for defaults only. Methods that only read may be called from any
// goroutine as long as none calls Modify.
type Set struct {
	prefix string  // printed before names in listings: "UCX_", "APP_UCX_"
	layers []layer // UCX_ names, then names with the user's prefix, which override the first
	calls  []entry // calls to Modify, oldest first
}

// layer holds the values that the environment and the files give under one prefix, by name without
// the prefix.
type layer map[string]entry

// entry is one value with its name and origin.
type entry struct {
	name   string // name without prefix; for a call of Modify it may be a pattern
	value  string
	origin Origin
}

// Modify changes one setting, named with or without UCX_. If the name is a pattern as in
// path.Match, Modify changes every setting that it matches. For a value that cannot be used it
// returns an error that matches ucs.ErrInvalidParam, and changes nothing. A name that no section
// knows is kept for sections that are registered later (see Unknown).
func (s *Set) Modify(name, value string) error {
	name = strings.TrimPrefix(strings.TrimPrefix(name, s.prefix), defaultPrefix)
	if _, err := path.Match(name, ""); err != nil || name == "" {
		return fmt.Errorf("config: bad name %s: %w", quote(name), ucs.ErrInvalidParam)
	}
	e := entry{name: name, value: value, origin: Origin{Kind: FromCall}}
	for _, sec := range sections() {
		v := reflect.New(sec.typ).Elem()
		for i := range sec.fields {
			f := &sec.fields[i]
			if f.named(name) {
				if err := f.store(v, e); err != nil {
					return err
				}
			}
		}
	}
	s.calls = slices.DeleteFunc(s.calls, func(o entry) bool { return o.name == name })
	s.calls = append(s.calls, e)
	s.reportCall(e)
	return s.applyGlobal()
}

// Check reads all settings, including those of transports that are opened later or
// not at all, and returns the first error of a value that cannot be used.
func (s *Set) Check() error {
	for _, sec := range sections() {
		if err := s.Load(sec.Name, sec.New()); err != nil {
			return err
		}
		if sec.Section.Check == nil {
			continue
		}
		if err := sec.Section.Check(s); err != nil {
			return err
		}
	}
	return nil
}

// Load fills dst, a pointer to the struct of the named section's settings.
func (s *Set) Load(name string, dst any) error {
	sec := lookupSection(name)
	if sec == nil {
		return fmt.Errorf("config: no section %q: %w", name, ucs.ErrInvalidParam)
	}
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != sec.typ || v.IsNil() {
		return fmt.Errorf("config: section %q loads into *%v, not %T: %w", name, sec.typ, dst, ucs.ErrInvalidParam)
	}
	return s.load(sec, v.Elem())
}

func (s *Set) load(sec *section, v reflect.Value) error {
	for i := range sec.fields {
		f := &sec.fields[i]
		if err := f.store(v, s.effective(f)); err != nil {
			return err
		}
	}
	return nil
}

// effective returns the value of setting f: of all values that were given, the one that overrides
// the others.
func (s *Set) effective(f *field) entry {
	e := entry{name: f.fullName(), value: f.def}
	if s == nil {
		return e
	}
	for _, l := range s.layers {
		for _, name := range f.settable {
			if got, ok := l[name]; ok {
				e = got
			}
		}
	}
	for _, c := range s.calls {
		if f.named(c.name) {
			e = c
		}
	}
	return e
}

// named reports whether the name or pattern of a call of Modify selects setting f.
func (f *field) named(pattern string) bool {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return slices.Contains(f.settable, pattern)
	}
	return slices.ContainsFunc(f.settable, func(name string) bool {
		found, _ := path.Match(pattern, name)
		return found
	})
}

// store parses the value of e and stores it in the field for setting f of v, a struct of the
// section's type.
func (f *field) store(v reflect.Value, e entry) error {
	fv := v.FieldByIndex(f.index)
	if err := parseInto(fv, e.value); err != nil {
		return &ValueError{Name: f.fullName(), Value: e.value, Origin: e.origin, Allowed: syntax(fv), Err: err}
	}
	return nil
}

// Clone returns an independent copy.
func (s *Set) Clone() *Set {
	if s == nil {
		return nil
	}
	c := &Set{prefix: s.prefix, layers: make([]layer, len(s.layers)), calls: slices.Clone(s.calls)}
	for i, l := range s.layers {
		c.layers[i] = maps.Clone(l)
	}
	return c
}

// Lookup returns the value of a setting as it was written, and its origin. ok is false for a name
// that no section has and that neither the environment nor a file nor a call has set.
func (s *Set) Lookup(name string) (value string, origin Origin, ok bool) {
	name = strings.TrimPrefix(name, defaultPrefix)
	for _, sec := range sections() {
		for i := range sec.fields {
			f := &sec.fields[i]
			known := false
			own := f.prefixes[len(f.prefixes)-1]
			for _, n := range append([]string{f.name}, f.aliases...) {
				known = known || own+n == name
			}
			if known {
				e := s.effective(f)
				return e.value, e.origin, true
			}
		}
	}
	e, ok := s.unknownEntry(name)
	return e.value, e.origin, ok
}

// unknownEntry returns the value given for a name that no section knows.
func (s *Set) unknownEntry(name string) (entry, bool) {
	if s == nil {
		return entry{}, false
	}
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].name == name {
			return s.calls[i], true
		}
	}
	for i := len(s.layers) - 1; i >= 0; i-- {
		if e, found := s.layers[i][name]; found {
			return e, true
		}
	}
	return entry{}, false
}
