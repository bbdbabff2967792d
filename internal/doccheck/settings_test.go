package doccheck

import (
	"bytes"
	"flag"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/ucx-go/ucx/ucp" // registers all settings
	"github.com/ucx-go/ucx/ucs/config"
)

var update = flag.Bool("update", false, "write docs/settings.md anew")

// settingsFile is the path of the document from this package.
const settingsFile = "../../docs/settings.md"

// TestSettings compares the document with the descriptions of the settings.
func TestSettings(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the document has the settings of all transports, which are for Linux")
	}
	var text bytes.Buffer
	var defaults *config.Set
	flags := config.PrintConfig | config.PrintHeader | config.PrintDoc | config.PrintHidden
	if err := defaults.Write(&text, "", flags); err != nil {
		t.Fatal(err)
	}
	want := settingsDocument(parseSettings(text.String()))
	if *update {
		if err := os.WriteFile(settingsFile, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(settingsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("%s is not what the settings say (- file, + settings);\n"+
			"go test ./internal/doccheck -run TestSettings -update writes it anew:\n%s", settingsFile, diff)
	}
}

// setting is one entry of a listing of settings.
type setting struct {
	names  []string // one, or several equivalent ones of different transports
	others []string // aliases and more general names, the most general ones first
	value  string   // default
	syntax string
	doc    string
}

// parseSettings reads a listing of settings, as ucx_info -caf prints it.
func parseSettings(text string) (list []setting) {
	var s setting
	aliasOf := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "#")
		comment = strings.TrimSpace(comment)
		switch label, rest, _ := strings.Cut(comment, ":"); {
		case line == "":
			s, aliasOf = setting{}, "" // an empty line ends a setting or a title
		case isComment && label == "syntax":
			s.syntax = strings.TrimSpace(rest)
		case isComment && label == "alias of":
			aliasOf = strings.TrimSpace(rest)
		case isComment && label == "inherits":
			s.others = strings.Split(strings.ReplaceAll(rest, " ", ""), ",")
			slices.Reverse(s.others)
		case isComment:
			s.doc = strings.TrimSpace(s.doc + " " + comment)
		default:
			name, value, _ := strings.Cut(line, "=")
			s.names, s.value = []string{name}, value
			list = add(list, s, aliasOf)
		}
	}
	return list
}

// add adds a setting to a list. An alias, or the same setting of another transport, is merged into
// the existing entry.
func add(list []setting, s setting, aliasOf string) []setting {
	if aliasOf != "" {
		i := slices.IndexFunc(list, func(o setting) bool { return slices.Contains(o.names, aliasOf) })
		list[i].others = append(list[i].others, s.names...)
		return list
	}
	i := slices.IndexFunc(list, func(o setting) bool { return same(o, s) })
	if i < 0 {
		return append(list, s)
	}
	list[i].names = append(list[i].names, s.names...)
	for _, name := range s.others {
		if !slices.Contains(list[i].others, name) {
			list[i].others = append(list[i].others, name)
		}
	}
	return list
}

// same reports whether settings of two transports differ only in their names, and have the same
// general name.
func same(a, b setting) bool {
	return len(a.others) > 0 && len(b.others) > 0 && a.others[0] == b.others[0] &&
		a.value == b.value && a.syntax == b.syntax && a.doc == b.doc
}

// TestParseSettings parses a listing with every possible kind of line.
func TestParseSettings(t *testing.T) {
	text := "# UCX library configuration file\n# Uncomment\n\n#\n# UCP configuration\n#\n\n" +
		"#\n# First line\n# and second.\n#\n# syntax:    <y|n>\n#\nUCX_A=y\n\n" +
		"#\n# First line\n# and second.\n#\n# syntax:    <y|n>\n# alias of:  UCX_A\n#\nUCX_OLD_A=y\n\n" +
		"#\n# Both.\n#\n# syntax:    string\n# inherits:  UCX_P_N, UCX_N\n#\nUCX_P_V_N=\n\n" +
		"#\n# Both.\n#\n# syntax:    string\n# inherits:  UCX_Q_N, UCX_N\n#\nUCX_Q_V_N=\n\n"
	want := []setting{
		{[]string{"UCX_A"}, []string{"UCX_OLD_A"}, "y", "<y|n>", "First line and second."},
		{[]string{"UCX_P_V_N", "UCX_Q_V_N"}, []string{"UCX_N", "UCX_P_N", "UCX_Q_N"}, "", "string", "Both."},
	}
	if diff := cmp.Diff(want, parseSettings(text), cmp.AllowUnexported(setting{})); diff != "" {
		t.Error(diff)
	}
}
