package ucs

import "strconv"

// ThreadMode says how goroutines may share an object. The numbers are those of
// ucs_thread_mode_t.
type ThreadMode uint8

// Thread modes.
const (
	ThreadModeSingle     ThreadMode = 0 // one goroutine uses the object
	ThreadModeSerialized ThreadMode = 1 // several goroutines use the object, but never two at once
	ThreadModeMulti      ThreadMode = 2 // any goroutine may use the object at any time
)

// Valid reports whether m is one of the declared modes.
func (m ThreadMode) Valid() bool { return m <= ThreadModeMulti }

// String returns the name used by the C tools.
func (m ThreadMode) String() string {
	switch m {
	case ThreadModeSingle:
		return "single"
	case ThreadModeSerialized:
		return "serialized"
	case ThreadModeMulti:
		return "multi"
	}
	return "thread mode " + strconv.Itoa(int(m))
}
