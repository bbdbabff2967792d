package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Section describes the settings of one subject. Name identifies it ("tcp"),
// Prefix stands before the setting's name in a variable ("TCP_", "" for global
// settings), Title names it in listings, which add "configuration" ("tcp
// transport"), New returns a pointer to a zero struct of settings, and Check, if
// not nil, says why the values of a set cannot be used although each can be read:
// for Set.Check, before anything is opened with them. Fields are tagged
//
//	TxSegSize Bytes `ucx:"TX_SEG_SIZE" default:"8k" doc:"Size of a send buffer."`
//
// and may be bool, int, uint, float64, string, time.Duration, any type whose
// pointer implements Value (Bytes, Count, Time, Bandwidth, Ternary, List,
// Transports, Range, a type of the package itself), or a slice of one of these,
// which reads a comma-separated list.
//
// The ucx tag may list further names after the first, separated by commas:
// aliases, which are older or other spellings of the same setting and shown only
// with PrintHidden. A field that is a struct without a ucx tag is a group: its
// fields belong to the section, and with the tag prefix:"MM_" (or prefix:"", for
// settings of all transports) they are also set by names with that prefix, which
// count less than names with the section's own; C calls this inheritance. Other
// fields without a ucx tag are not settings.
type Section struct {
	Name   string
	Prefix string
	Title  string
	New    func() any
	Check  func(*Set) error
}

var registry struct {
	mu     sync.Mutex
	byName map[string]*section // guarded by mu
}

// section is a registered Section with what its tags say.
type section struct {
	Section
	typ    reflect.Type
	fields []field
}

// field is one setting of a section.
type field struct {
	name     string   // without prefix
	aliases  []string // without prefix
	prefixes []string // weakest first; the last one is the section's own

	// settable are the names that set the field, without UCX_, weakest first: by prefix, and
	// aliases before the name itself.
	settable []string

	def   string
	doc   string
	index []int // for reflect.Value.FieldByIndex
}

// Register makes a section known to every Set that is read from then on.
// Packages call it from init. A section that cannot work (a second one of the
// same name, a bad tag, a default that does not parse) is a programming error
// and panics.
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

// Sections returns the registered sections: those that C UCX has in its order,
// then the others by prefix and name. Any goroutine may call it.
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

// fullName is the name of f in its section, without UCX_.
func (f *field) fullName() string { return f.settable[len(f.settable)-1] }

// validName accepts the names a setting may have: capital letters, digits and
// underscores.
func validName(n string) bool {
	for i := range len(n) {
		c := n[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return n != ""
}
