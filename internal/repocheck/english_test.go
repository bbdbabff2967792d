package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tellTale is a pattern of prose that is hard to understand, with the advice what to write instead.
type tellTale struct {
	pattern *regexp.Regexp
	instead string
}

// tellTales apply to all prose. Style guides forbid more; these are the most frequent ones.
var tellTales = []tellTale{
	{regexp.MustCompile(`(^|[.!?:;|#] +)[Ww]ho `), `a noun: "a peer that ...", "a caller that ..."`},
	{regexp.MustCompile(`(?i)\b(he|him|his)\b`), `"it": peers, callers and kernels are things`},
	{regexp.MustCompile(`(?i)\bwe\b`), `"the library", "this process", "this package"`},
	{regexp.MustCompile(`(?i)\blikewise\b`), `the statement itself, or "also"`},
	{regexp.MustCompile(`(?i)\bmoreover\b`), `a sentence of its own, or "also"`},
	{regexp.MustCompile(`(?i)\bbe it\b`), `"such as", "including"`},
}

// textTales apply to the texts of a program: errors, logs, descriptions of settings, help. A text
// is read without the code around it, so it must not describe events with words for persons and
// speech.
var textTales = slices.Concat(tellTales, []tellTale{
	{regexp.MustCompile(`(?i)\b(who|whom|nobody|somebody)\b`), `the noun: "no peer", "a process that ...", "no iface has ..."`},
	{regexp.MustCompile(`(?i)\btold\b`), `"notified", "reported", "got"`},
	{regexp.MustCompile(`(?i)\bspeaks?\b`), `"sends", "uses protocol ..."`},
	{regexp.MustCompile(`(?i)\b(taken away|takes? \w+ away)\b`), `"removed", "freed", "invalidated"`},
	{regexp.MustCompile(`(?i)\bway back\b`), `"reverse path", "route back to the peer"`},
	{regexp.MustCompile(`(?i)\b(nonsense|makes? no sense)\b`), `"invalid", "malformed"`},
	{regexp.MustCompile(`(?i)\bown affair\b`), `"affects this side only"`},
	{regexp.MustCompile(`(?i)\bnot allowed here\b`), `the setting or function that refuses`},
})

// prose is a paragraph, with the line number of each of its lines. A sentence may continue on the
// next line.
type prose struct {
	lines   []string
	numbers []int
}

func (p *prose) add(number int, line string) {
	p.lines, p.numbers = append(p.lines, strings.TrimSpace(line)), append(p.numbers, number)
}

// faults lists the matches of patterns in a paragraph, as "line: what".
func (p *prose) faults(tales []tellTale) (list []string) {
	text := strings.Join(p.lines, " ")
	for _, t := range tales {
		for _, m := range t.pattern.FindAllStringIndex(text, -1) {
			found := strings.TrimLeft(text[m[0]:m[1]], ".!?:;|# ")
			at, line := m[1]-len(strings.TrimLeft(found, " ")), 0
			for line+1 < len(p.lines) && at > len(p.lines[line]) {
				at -= len(p.lines[line]) + 1
				line++
			}
			list = append(list, fmt.Sprintf("%d: %q, write %s", p.numbers[line], strings.TrimSpace(found), t.instead))
		}
	}
	return list
}

// commentProse returns the paragraphs of a comment, without blocks that are indented as code.
func commentProse(s *source, g *ast.CommentGroup) (list []*prose) {
	p := new(prose)
	for _, c := range g.List {
		text := strings.TrimPrefix(c.Text, "//")
		if strings.TrimSpace(text) == "" {
			list, p = append(list, p), new(prose)
		}
		if !strings.HasPrefix(text, "\t") {
			p.add(s.fset.Position(c.Pos()).Line, text)
		}
	}
	return append(list, p)
}

// markdownProse returns the paragraphs of a document, without blocks of code.
func markdownProse(text string) (list []*prose) {
	p, code, number := new(prose), false, 0
	for line := range strings.Lines(text) {
		number++
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code || strings.HasPrefix(line, "    "):
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(strings.TrimSpace(line), "- "):
			list, p = append(list, p), new(prose)
			p.add(number, strings.TrimPrefix(strings.TrimSpace(line), "- "))
		default:
			p.add(number, line)
		}
	}
	return append(list, p)
}

// textProse returns the string literals of a file with more than one word, each as a paragraph.
// Literals that are joined with + are one text.
func textProse(s *source) (list []*prose) {
	var p *prose
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			if n.Op != token.ADD || p != nil {
				break
			}
			p = new(prose)
			ast.Inspect(n.X, visit)
			ast.Inspect(n.Y, visit)
			list, p = append(list, p), nil
			return false
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil {
				break
			}
			to := p
			if to == nil {
				to = new(prose)
				list = append(list, to)
			}
			for i, line := range strings.Split(text, "\n") {
				to.add(s.fset.Position(n.Pos()).Line+i, line)
			}
		}
		return true
	}
	ast.Inspect(s.file, visit)
	return slices.DeleteFunc(list, func(p *prose) bool { return !strings.Contains(strings.Join(p.lines, " "), " ") })
}

// TestEnglish checks that no comment, no document, and no text of the program contains one of the
// patterns.
func TestEnglish(t *testing.T) {
	told := make(map[string]bool)
	tell := func(name string, list []*prose, tales []tellTale) {
		for _, p := range list {
			for _, fault := range p.faults(tales) {
				if line := name + ":" + fault; !told[line] {
					told[line] = true
					t.Error(line)
				}
			}
		}
	}
	for _, s := range sources(t) {
		for _, g := range s.file.Comments {
			tell(s.name, commentProse(s, g), tellTales)
		}
		if !s.test() {
			tell(s.name, textProse(s), textTales)
		}
	}
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tell(strings.TrimPrefix(filepath.ToSlash(name), "../../"), markdownProse(string(text)), tellTales)
	}
}

// TestTellTales checks which patterns are found, and the line numbers.
func TestTellTales(t *testing.T) {
	for text, want := range map[string]string{
		"A peer that asks is told.":                        "",
		"Who asks is told.":                                `1: "Who"`,
		"It is sent.\nwho asks is told":                    `2: "who"`,
		"| a | who asks |":                                 `1: "who"`,
		"The reader, who\nwaits, is woken.":                "",
		"The peer sends what\nhe has.":                     `2: "he"`,
		"a caller gives\n\nhis buffer":                     `3: "his"`,
		"What we send":                                     `1: "we"`,
		"The answer web.":                                  "",
		"likewise":                                         `1: "likewise"`,
		"Moreover it sends":                                `1: "Moreover"`,
		"any call, be it a\nSend":                          `1: "be it"`,
		"```\nwho we are\n```\n    who we are":             "",
		"- Who asks\n- who answers":                        `1: "Who"` + "\n" + `2: "who"`,
		"The end. The handler of the peer is his\nbuffer.": `1: "his"`,
	} {
		var got []string
		for _, p := range markdownProse(text) {
			for _, fault := range p.faults(tellTales) {
				got = append(got, strings.SplitN(fault, ", write ", 2)[0])
			}
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestTextTales checks which patterns are found in the texts of a program, and the line numbers.
func TestTextTales(t *testing.T) {
	for code, want := range map[string]string{
		`var _ = errors.New("the peer closed the connection")`: "",
		`var _ = "nobody"`:                     "",
		`var _ = "nobody listens"`:             `1: "nobody"`,
		`var _ = "the client is " + "told %v"`: `1: "told"`,
		"var _ = \"a segment that was taken \" +\n\t\"away by the kernel\"":   `1: "taken away"`,
		"var _ = `usage:\n  -x  this side's own affair\n`":                    `2: "own affair"`,
		"type _ struct { A int `doc:\"settings that we know\"` }":             `1: "we"`,
		`var _ = f("to whom", g("no way back"))`:                              `1: "whom"` + "\n" + `1: "way back"`,
		`import "who speaks"` + "\nvar _ = \"a hint: whose key it is, told\"": `2: "told"`,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x; "+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range textProse(&source{name: "x.go", fset: fset, file: file}) {
			for _, fault := range p.faults(textTales) {
				got = append(got, strings.SplitN(fault, ", write ", 2)[0])
			}
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}
