package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The layouts are those of C UCX's ucx_info -c and -f, release 1.13.1.
const (
	plainLayout = `UCX_TEST_MAX_IOV=16
UCX_TEST_SEG_SIZE=1K
UCX_TEST_WAIT=20000.00us
UCX_TEST_ENABLE=try
UCX_TEST_NAMES=a,b
`
	hiddenLayout = `UCX_TEST_MAX_IOV=16
UCX_TEST_SEG_SIZE=1K
UCX_TEST_SEGMENT=1K
UCX_TEST_WAIT=20000.00us
UCX_TEST_ENABLE=try
UCX_TEST_NAMES=a,b
`
	commentLayout = `# UCX_TEST_MAX_IOV=16
UCX_TEST_SEG_SIZE=1K
# UCX_TEST_WAIT=20000.00us
# UCX_TEST_ENABLE=try
# UCX_TEST_NAMES=a,b
`
	docLayout = `#
# title
#

#
# Entries.
#
# syntax:    integer
# inherits:  UCX_TESTBASE_MAX_IOV
#
UCX_TEST_MAX_IOV=16

#
# Size of a buffer.
# In bytes.
#
# syntax:    memory units: <number>[b|kb|mb|gb], "inf", or "auto"
#
UCX_TEST_SEG_SIZE=1K

#
# Size of a buffer.
# In bytes.
#
# syntax:    memory units: <number>[b|kb|mb|gb], "inf", or "auto"
# alias of:  UCX_TEST_SEG_SIZE
#
UCX_TEST_SEGMENT=1K

#
# How long.
#
# syntax:    time value: <number>[m|s|ms|us|ns]
#
UCX_TEST_WAIT=20000.00us

#
# Whether.
#
# syntax:    <yes|no|try|auto>
#
UCX_TEST_ENABLE=try

#
# Which.
#
# syntax:    comma-separated list of: string
#
UCX_TEST_NAMES=a,b

`
)

func TestWrite(t *testing.T) {
	clean(t)
	t.Setenv("UCX_TEST_SEG_SIZE", "1024")
	s := mustRead(t, "", "")
	for _, tc := range []struct {
		flags PrintFlags
		want  string
	}{
		{0, ""},
		{PrintConfig, plainLayout},
		{PrintConfig | PrintHidden, hiddenLayout},
		{PrintConfig | PrintCommentDefault, commentLayout},
		{PrintConfig | PrintHeader, "#\n# title\n#\n\n" + plainLayout},
		{PrintHeader, "#\n# title\n#\n\n"},
		{PrintConfig | PrintHeader | PrintDoc | PrintHidden, docLayout},
	} {
		var b strings.Builder
		if err := s.Write(&b, "title", tc.flags, "test"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, b.String()); diff != "" {
			t.Errorf("flags %#x: %s", tc.flags, diff)
		}
	}
}

func TestWriteAll(t *testing.T) {
	clean(t)
	var b strings.Builder
	if err := mustRead(t, "APP", "").Write(&b, "", PrintConfig|PrintHeader|PrintDoc); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, "# UCX library configuration file\n# Uncomment to modify values\n\n") {
		t.Errorf("begins with %.100q", text)
	}
	for _, part := range []string{
		"#\n# UCS global configuration\n#\n\n", "#\n# test transport configuration\n#\n\n",
		"\nAPP_UCX_LOG_LEVEL=WARN\n", "\nAPP_UCX_TEST_SEG_SIZE=8K\n", "# inherits:  APP_UCX_TESTBASE_MAX_IOV\n",
	} {
		if strings.Count(text, part) != 1 {
			t.Errorf("%q appears %d times", part, strings.Count(text, part))
		}
	}
	// The printed text can be read as a file, and changes nothing.
	file := write(t, fileName, text)
	again := mustRead(t, "APP", file)
	if diff := cmp.Diff(mustLoad(t, nil), mustLoad(t, again)); diff != "" {
		t.Error(diff)
	}
	if _, o, _ := again.Lookup("TEST_SEG_SIZE"); o.Kind != FromFile {
		t.Errorf("the printed file is not read: origin %v", o)
	}
}

func TestWriteNil(t *testing.T) {
	var b strings.Builder
	if err := (*Set)(nil).Write(&b, "", PrintConfig, "test"); err != nil || !strings.Contains(b.String(), "UCX_TEST_SEG_SIZE=8K\n") {
		t.Errorf("%v: %s", err, b.String())
	}
}

type badWriter struct{}

var errWrite = errors.New("disk full")

func (badWriter) Write([]byte) (int, error) { return 0, errWrite }

func TestWriteError(t *testing.T) {
	for _, flags := range []PrintFlags{PrintConfig, PrintHeader} {
		if err := (*Set)(nil).Write(badWriter{}, "title", flags); !errors.Is(err, errWrite) {
			t.Errorf("Write with flags %#x = %v", flags, err)
		}
	}
}

func TestWrap(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "#\n",
		"one  two":                      "# one two\n",
		strings.Repeat("word ", 17):     "# " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n# word word\n",
		strings.Repeat("x", 100) + " y": "# " + strings.Repeat("x", 100) + "\n# y\n",
	} {
		var b strings.Builder
		writeWrapped(&b, in)
		if b.String() != want {
			t.Errorf("%q is wrapped as %q", in, b.String())
		}
	}
}

func TestWriteMatching(t *testing.T) {
	clean(t)
	s := mustRead(t, "", "")
	for _, tc := range []struct {
		part  string
		flags PrintFlags
		want  string
	}{
		{"TEST_SEG", PrintConfig, "UCX_TEST_SEG_SIZE=8K\n"},
		{"UCX_TEST_SEG", PrintConfig | PrintHeader, "#\n# test transport configuration\n#\n\nUCX_TEST_SEG_SIZE=8K\n"},
		{"NO_SUCH_NAME", PrintConfig | PrintHeader, ""},
	} {
		var b strings.Builder
		if err := s.WriteMatching(&b, tc.flags, tc.part); err != nil || b.String() != tc.want {
			t.Errorf("%s: %v, %q, want %q", tc.part, err, b.String(), tc.want)
		}
	}
}
