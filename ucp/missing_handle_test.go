package ucp

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// TestMissingHandles: every method that returns an error gives one that names the call, for a
// nil handle and for one that the package has not made.
func TestMissingHandles(t *testing.T) {
	errorType := reflect.TypeFor[error]()
	for _, handle := range []any{
		(*Context)(nil), (*Worker)(nil), (*Endpoint)(nil), (*Memory)(nil), (*Rkey)(nil), (*Listener)(nil),
		(*AMQueue)(nil), (*AMMessage)(nil), (*ConnRequest)(nil), (*TagMessage)(nil),
		new(Context), new(Worker), new(Endpoint), new(Memory), new(Rkey), new(Listener),
		new(AMQueue), new(AMMessage), new(ConnRequest), new(TagMessage),
	} {
		v := reflect.ValueOf(handle)
		for k := range v.NumMethod() {
			m := v.Type().Method(k)
			out := m.Type.NumOut()
			if out == 0 || m.Type.Out(out-1) != errorType || v.Type() == reflect.TypeFor[*Listener]() && m.Name == "Reject" {
				continue // a method of Request
			}
			var args []reflect.Value
			for a := 1; a < m.Type.NumIn(); a++ {
				args = append(args, reflect.Zero(m.Type.In(a)))
			}
			err, _ := v.Method(k).Call(args)[out-1].Interface().(error)
			name := v.Type().Elem().Name()
			if !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), "ucp: "+name+".") {
				t.Errorf("%s.%s of %v: %v", name, m.Name, v.IsNil(), err)
			}
		}
	}
}
