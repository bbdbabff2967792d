package ucp

import (
	"reflect"
	"sync"
	"testing"
)

// TestCopiesAreFound checks that go vet reports copies of the types that the package returns by
// pointer.
func TestCopiesAreFound(t *testing.T) {
	for _, v := range []any{
		AMMessage{}, AMQueue{}, ConnRequest{}, Context{}, Endpoint{}, Listener{}, Memory{}, Request{}, Rkey{}, TagMessage{}, Worker{},
	} {
		if typ := reflect.TypeOf(v); !locked(typ) {
			t.Errorf("%v can be copied unnoticed", typ)
		}
	}
}

// locked reports whether a type contains something that go vet treats as a lock.
func locked(t reflect.Type) bool {
	locker := reflect.TypeFor[sync.Locker]()
	switch {
	case reflect.PointerTo(t).Implements(locker) && !t.Implements(locker):
		return true
	case t.Kind() == reflect.Array:
		return locked(t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if locked(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}
