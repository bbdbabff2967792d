package repocheck

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tellTales are patterns of prose that a reader stumbles over, with what to write instead. Style
// guides forbid more; these are the ones that came back most often.
var tellTales = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(^|[.!?:;|#] +)[Ww]ho `), `a noun: "a peer that ...", "a caller that ..."`},
	{regexp.MustCompile(`(?i)\b(he|him|his)\b`), `"it": peers, callers and kernels are things`},
	{regexp.MustCompile(`(?i)\bwe\b`), `"the library", "this process", "this package"`},
	{regexp.MustCompile(`(?i)\blikewise\b`), `the statement itself, or "also"`},
	{regexp.MustCompile(`(?i)\bmoreover\b`), `a sentence of its own, or "also"`},
	{regexp.MustCompile(`(?i)\bbe it\b`), `"such as", "including"`},
}

// prose is text with the number of the line that each of its lines stands on. Lines of one prose
// belong to one paragraph, so a sentence may cross them.
type prose struct {
	lines   []string
	numbers []int
}

func (p *prose) add(number int, line string) {
	p.lines, p.numbers = append(p.lines, strings.TrimSpace(line)), append(p.numbers, number)
}

// faults lists the tell-tales of a paragraph as "line: what".
func (p *prose) faults() (list []string) {
	text := strings.Join(p.lines, " ")
	for _, t := range tellTales {
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

// commentProse is the paragraphs of a comment, without the blocks that are indented as code.
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

// markdownProse is the paragraphs of a document, without blocks of code.
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

// publicComments lists the comments that go doc shows: of the package, and of exported
// identifiers, fields and methods.
func publicComments(f *ast.File) (list []*ast.CommentGroup) {
	add := func(groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil {
				list = append(list, g)
			}
		}
	}
	exported := func(names []*ast.Ident) bool { return slices.ContainsFunc(names, (*ast.Ident).IsExported) }
	add(f.Doc)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				add(d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if !s.Name.IsExported() {
						continue
					}
					add(d.Doc, s.Doc, s.Comment)
					ast.Inspect(s.Type, func(n ast.Node) bool {
						field, ok := n.(*ast.Field)
						if ok && exported(field.Names) {
							add(field.Doc, field.Comment)
						}
						return true
					})
				case *ast.ValueSpec:
					if exported(s.Names) {
						add(d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	return list
}

// TestEnglish wants the comments that go doc shows, and the documents for users, to be free of
// the tell-tales of translated prose.
func TestEnglish(t *testing.T) {
	told := make(map[string]bool)
	tell := func(name string, list []*prose) {
		for _, p := range list {
			for _, fault := range p.faults() {
				if line := name + ":" + fault; !told[line] {
					told[line] = true
					t.Error(line)
				}
			}
		}
	}
	for _, s := range sources(t) {
		if s.test() || strings.HasPrefix(s.name, "internal/") || strings.Contains(s.name, "/internal/") {
			continue
		}
		for _, g := range publicComments(s.file) {
			tell(s.name, commentProse(s, g))
		}
	}
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tell(strings.TrimPrefix(filepath.ToSlash(name), "../../"), markdownProse(string(text)))
	}
}

// TestTellTales checks what TestEnglish finds, and on which line.
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
			for _, fault := range p.faults() {
				got = append(got, strings.SplitN(fault, ", write ", 2)[0])
			}
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
