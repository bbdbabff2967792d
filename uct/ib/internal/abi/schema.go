//go:build linux

package abi

import "reflect"

// Kind is the kind of an attribute, and its direction.
type Kind uint8

// Kinds of attributes.
const (
	In            Kind = iota // bytes for the kernel
	Out                       // bytes from the kernel
	Const                     // a number for the kernel, always 8 bytes
	Handle                    // an object
	NewHandle                 // an object that the kernel makes
	DestroyHandle             // an object to destroy
	FD                        // a descriptor
	NewFD                     // a descriptor that the kernel makes
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"in", "out", "const", "handle", "new handle", "destroyed handle", "fd", "new fd"}[k]
}

// FromKernel reports whether the kernel writes the attribute.
func (k Kind) FromKernel() bool { return k == Out || k == NewHandle || k == NewFD }

// AttrSpec describes an attribute of a method.
type AttrSpec struct {
	ID        uint16
	Name      string
	Kind      Kind
	Min, Max  int          // bytes of In and Out
	Type      reflect.Type // the struct of In and Out, nil for numbers
	Object    uint16       // object type, for the kinds with handles
	Mandatory bool         // the method requires it
}

// MethodSpec describes a method of an object.
type MethodSpec struct {
	Object, ID    uint16
	Name          string // OBJECT.METHOD
	Since         string // the first kernel version that has it, roughly
	UHW           bool   // a driver may add its own data
	Attrs         []AttrSpec
	byID          [16]*AttrSpec
	driver        [8]*AttrSpec // attributes of a driver's objects, from driverSpace on
	uhwIn, uhwOut AttrSpec
}

// Attr returns the description of an attribute, nil if there is none.
func (m *MethodSpec) Attr(id uint16) *AttrSpec {
	switch {
	case int(id) < len(m.byID):
		return m.byID[id]
	case m.UHW && id == UVERBS_ATTR_UHW_IN:
		return &m.uhwIn
	case m.UHW && id == UVERBS_ATTR_UHW_OUT:
		return &m.uhwOut
	case id >= driverSpace && int(id-driverSpace) < len(m.driver):
		return m.driver[id-driverSpace]
	}
	return nil
}

// Probeable reports whether a call without attributes has no effect, because a kernel that knows
// the method fails for lack of a mandatory attribute.
func (m *MethodSpec) Probeable() bool {
	for i := range m.Attrs {
		if m.Attrs[i].Mandatory {
			return true
		}
	}
	return false
}

// CommandSpec describes a command of the method INVOKE_WRITE.
type CommandSpec struct {
	ID      uint32 // with IB_USER_VERBS_CMD_FLAG_EXTENDED
	Name    string
	In, Out reflect.Type // Out is nil if there is no answer
	UHW     bool         // a driver may add its own data
}

// MaxDriverData is the largest length of driver-specific data in each direction, in bytes.
const MaxDriverData = 4096

// Lookup returns the description of a method, nil if there is none.
func Lookup(object, method uint16) *MethodSpec { return methods[methodKey{object, method}] }

// LookupCommand returns the description of a command, nil if there is none.
func LookupCommand(id uint32) *CommandSpec { return commands[id] }

type methodKey struct{ object, method uint16 }

var (
	methods  = make(map[methodKey]*MethodSpec)
	commands = make(map[uint32]*CommandSpec)
)

func init() {
	for i := range Methods {
		m := &Methods[i]
		for j := range m.Attrs {
			a := &m.Attrs[j]
			if a.ID >= driverSpace {
				m.driver[a.ID-driverSpace] = a
			} else {
				m.byID[a.ID] = a
			}
		}
		m.uhwIn = AttrSpec{ID: UVERBS_ATTR_UHW_IN, Name: "UHW_IN", Kind: In, Max: MaxDriverData}
		m.uhwOut = AttrSpec{ID: UVERBS_ATTR_UHW_OUT, Name: "UHW_OUT", Kind: Out, Max: MaxDriverData}
		methods[methodKey{m.Object, m.ID}] = m
	}
	for i := range Commands {
		commands[Commands[i].ID] = &Commands[i]
	}
}

// The functions below construct entries of the tables Methods and Commands.

func must(a AttrSpec) AttrSpec { a.Mandatory = true; return a }

func num(kind Kind, id uint16, name string, size int) AttrSpec {
	return AttrSpec{ID: id, Name: name, Kind: kind, Min: size, Max: size}
}

func obj[T Struct](kind Kind, id uint16, name string) AttrSpec {
	t := reflect.TypeFor[T]()
	return AttrSpec{ID: id, Name: name, Kind: kind, Min: int(t.Size()), Max: int(t.Size()), Type: t}
}

func konst(id uint16, name string) AttrSpec { return num(Const, id, name, 8) }

func handle(kind Kind, id uint16, name string, object uint16) AttrSpec {
	return AttrSpec{ID: id, Name: name, Kind: kind, Object: object}
}

func command[I Struct](id uint32, name string) CommandSpec {
	return CommandSpec{ID: id, Name: name, In: reflect.TypeFor[I]()}
}

func request[I, O Struct](id uint32, name string) CommandSpec {
	return CommandSpec{ID: id, Name: name, In: reflect.TypeFor[I](), Out: reflect.TypeFor[O]()}
}

func driver(c CommandSpec) CommandSpec { c.UHW = true; return c }
