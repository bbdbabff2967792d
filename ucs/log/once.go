package log

import "sync"

// maxKeys is how many keys of a text are remembered, and so how often WarnOnce logs it.
const maxKeys = 32

// told is what a logger has warned of already. The zero value is empty.
type told struct {
	mu   sync.Mutex
	keys map[string]map[string]struct{} // guarded by mu; by text
}

// defaultTold is that of the default logger: it stays the same when the level or the file
// changes.
var defaultTold told

// first reports whether a text was not told with that key before, and notes that it is now.
func (t *told) first(text, key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := t.keys[text]
	if _, again := keys[key]; again || len(keys) == maxKeys {
		return false
	}
	if keys == nil {
		keys = make(map[string]struct{})
		if t.keys == nil {
			t.keys = make(map[string]map[string]struct{})
		}
		t.keys[text] = keys
	}
	keys[key] = struct{}{}
	return true
}
