package log

import "sync"

// maxKeys is the largest number of keys that are recorded for a text, and so the number of times
// that WarnOnce logs the text.
const maxKeys = 32

// told records the warnings that WarnOnce has logged. The zero value is empty.
type onceSet struct {
	mu   sync.Mutex
	keys map[string]map[string]struct{} // set of keys of each text; guarded by mu
}

// defaultOnce is the record of the default logger, which stays the same when the level or the file
// changes.
var defaultOnce onceSet

// first records a text with a key. It returns false if they were recorded before, or if maxKeys
// keys of the text are recorded.
func (t *onceSet) first(text, key string) bool {
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
