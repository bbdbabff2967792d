//go:build linux

package rdmatest

import "testing"

func TestByDevice(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"2 HCAs found:\n\tb\n\ta\n", "2 HCAs found:\n\tb\n\ta\n"},
		{"hca: b\n one\n\nhca: a\n two\n\n", "hca: a\n two\n\nhca: b\n one\n\n"},
		{"2 found:\n\thca: b\n\thca: a\n\n", "2 found:\n\thca: a\n\thca: b\n\n"},
		{"head\n\thca: b\n\thca: a\n", "head\n\thca: a\n\thca: b\n"},
	} {
		if got := ByDevice(c.text, "hca: "); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
