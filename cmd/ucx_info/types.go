package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// shownTypes are types that have many instances in a program, or that determine the memory of an
// endpoint, by layer as in C's tool (src/tools/info/type_info.c). Their sizes exclude the memory
// they refer to.
var shownTypes = []struct {
	layer string
	types []reflect.Type
}{
	{"UCS", []reflect.Type{
		reflect.TypeFor[ucs.Status](), reflect.TypeFor[event.Set](), reflect.TypeFor[event.Timer](), reflect.TypeFor[event.Bell](),
	}},
	{"UCT", []reflect.Type{
		reflect.TypeFor[uct.Completion](), reflect.TypeFor[uct.Pending](), reflect.TypeFor[uct.IfaceAttr](), reflect.TypeFor[uct.MDAttr](),
		reflect.TypeFor[uct.Resource](), reflect.TypeFor[uct.Source](),
	}},
	{"UCP", []reflect.Type{
		reflect.TypeFor[ucp.Context](), reflect.TypeFor[ucp.Worker](), reflect.TypeFor[ucp.Endpoint](), reflect.TypeFor[ucp.Request](),
		reflect.TypeFor[ucp.Memory](), reflect.TypeFor[ucp.Rkey](), reflect.TypeFor[ucp.TagRecvInfo](), reflect.TypeFor[proto.LaneConfig](),
		reflect.TypeFor[proto.Wireup](),
	}},
}

// writeTypes prints the sizes of types in the layout of C's tool.
func writeTypes(w io.Writer) {
	for _, l := range shownTypes {
		fmt.Fprintf(w, "%s:\n", l.layer)
		for _, t := range l.types {
			name := fmt.Sprintf("sizeof(%v) = ", t)
			fmt.Fprintf(w, "    %s%s %-6d\n", name, strings.Repeat(".", max(49-len(name), 1)), t.Size())
		}
		fmt.Fprintln(w)
	}
}
