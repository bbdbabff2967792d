package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Section describes a group of settings, such as those of one transport. The function New returns a
// pointer to a struct. A field of the struct is a setting if it has tags like these:
//
//	TxSegSize Bytes `ucx:"TX_SEG_SIZE" default:"8k" doc:"Size of a send buffer."`
//
// Its type may be bool, int, uint, float64, string, time.Duration, any type whose pointer
// implements Value (Bytes, Count, Time, Bandwidth, Ternary, List, Transports, Range, a type of the
// package itself), or a slice of one of these, which reads a comma-separated list.
//
// The ucx tag may list further names after the first, separated by commas: aliases, which are older
// or other spellings of the same setting and shown only with PrintHidden. A field that is a struct
// without a ucx tag is a group: its fields belong to the section. With the tag prefix:"MM_" (or
// prefix:"", for settings of all transports) they can also be set by names with that prefix. Names
// with the section's own prefix override those. C UCX calls this inheritance. Other fields without
// a ucx tag are not settings.
type Section struct {
	Name   string     // identifies the section, for example "tcp"
	Prefix string     // precedes names in variables: "TCP_", or "" for global settings
	Title  string     // title in listings, which append "configuration": "tcp transport"
	New    func() any // returns a pointer to a zero struct of settings

	// Check, if not nil, returns an error for settings that parse but cannot be used together.
	// Set.Check calls it before anything is opened with the settings.
	Check func(*Set) error
}

var registry struct {
	mu     sync.Mutex
	byName map[string]*section // guarded by mu
}

// section is a registered Section with the fields that its tags describe.
type section struct {
	Section
	typ    reflect.Type
	fields []field
}

// field is one setting of a section.
type field struct {
	name     string   // the name, without prefix
	aliases  []string // the aliases, without prefix
	prefixes []string // later ones override earlier ones; the last one is the section's own

	// settable holds the names that set the field, without UCX_. Later names override earlier ones.
	// They are ordered by prefix, and for each prefix the aliases come before the name itself.
	settable []string

	def   string // default value
	doc   string // help text
	index []int  // position of the field in the struct, for reflect.Value.FieldByIndex
}

// Register makes the settings of a section known to every Set that is read from then on. Packages
// call it from init. It panics if the section has a programming error: the name of another section,
// a bad tag, or a default that does not parse.
func Register(s Section) {
	sec, err := newSection(s)
	if err != nil {
		panic(fmt.Sprintf("config: section %q: %v", s.Name, err))
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if _, dup := registry.byName[s.Name]; dup {
		panic(fmt.Sprintf("config: section %q registered twice", s.Name))
	}
	if registry.byName == nil {
		registry.byName = make(map[string]*section)
	}
	registry.byName[s.Name] = sec
}

// Sections returns the registered sections: first those that C UCX has too, in its order, then the
// others, by prefix and name. Any goroutine may call it.
func Sections() []Section {
	secs := sections()
	list := make([]Section, len(secs))
	for i, s := range secs {
		list[i] = s.Section
	}
	return list
}

func sections() []*section {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	list := make([]*section, 0, len(registry.byName))
	for _, s := range registry.byName {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *section) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func lookupSection(name string) *section {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return registry.byName[name]
}

// newSection reads the tags of s and checks that its defaults parse.
func newSection(s Section) (*section, error) {
	typ := reflect.TypeOf(s.New())
	if typ == nil || typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("its settings are %v, not a pointer to a struct", typ)
	}
	sec := &section{Section: s, typ: typ.Elem()}
	if err := sec.addFields(typ.Elem(), nil, []string{s.Prefix}); err != nil {
		return nil, err
	}
	sec.sortAsC()
	v := reflect.New(typ.Elem()).Elem()
	for i := range sec.fields {
		f := &sec.fields[i]
		if err := parseInto(v.FieldByIndex(f.index), f.def); err != nil {
			return nil, fmt.Errorf("default of %s: %w", f.name, err)
		}
	}
	return sec, nil
}

func (sec *section) addFields(typ reflect.Type, index []int, prefixes []string) error {
	for i := range typ.NumField() {
		sf := typ.Field(i)
		at := append(append([]int(nil), index...), i)
		tag, ok := sf.Tag.Lookup("ucx")
		if !ok {
			if sf.Type.Kind() != reflect.Struct {
				continue
			}
			inner := prefixes
			if p, ok := sf.Tag.Lookup("prefix"); ok {
				inner = append([]string{p}, prefixes...)
			}
			if err := sec.addFields(sf.Type, at, inner); err != nil {
				return err
			}
			continue
		}
		if !sf.IsExported() {
			return fmt.Errorf("field %s is not exported", sf.Name)
		}
		names := strings.Split(tag, ",")
		for _, n := range names {
			if !validName(n) {
				return fmt.Errorf("field %s: bad name %q", sf.Name, n)
			}
		}
		if !supported(sf.Type) {
			return fmt.Errorf("field %s: settings of type %v are not supported", sf.Name, sf.Type)
		}
		var settable []string
		for _, p := range prefixes {
			for _, a := range names[1:] {
				settable = append(settable, p+a)
			}
			settable = append(settable, p+names[0])
		}
		sec.fields = append(sec.fields, field{
			name:     names[0],
			aliases:  names[1:],
			prefixes: prefixes,
			settable: settable,
			def:      sf.Tag.Get("default"),
			doc:      sf.Tag.Get("doc"),
			index:    at,
		})
	}
	return nil
}

// fullName returns the name of the setting with the prefix of its section, without UCX_.
func (f *field) fullName() string { return f.settable[len(f.settable)-1] }

// validName reports whether a setting may have a name: it must consist of capital letters, digits
// and underscores.
func validName(n string) bool {
	for i := range len(n) {
		c := n[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return n != ""
}
