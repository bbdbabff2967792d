package sys

import "testing"

func TestWholeMachine(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"         0       1000          1\n": false,
		"0 100000 65536\n":                   false,
		"0 0 1000\n1000 100000 4294966295\n": false,
		"":                                   false,
	} {
		if got := WholeMachine(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
