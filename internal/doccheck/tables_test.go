package doccheck

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// fromC is the path of the document from this package.
const fromC = "../../docs/from-c.md"

// row is a row of a table of a document.
type row struct {
	line      int
	c, goCell string // cells of the columns C and Go, empty if a table lacks the column
}

// document is the content of a Markdown file that the tests need.
type document struct {
	rows   []row
	quoted []string          // text between backquotes, outside of blocks of code
	blocks map[string]string // the first block of code in each language
}

var backquoted = regexp.MustCompile("`([^`]+)`")

// quotes returns the texts between backquotes.
func quotes(s string) (list []string) {
	for _, m := range backquoted.FindAllStringSubmatch(s, -1) {
		list = append(list, m[1])
	}
	return list
}

// read parses a document.
func read(t *testing.T, file string) *document {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := &document{blocks: make(map[string]string)}
	var columns []string
	block := ""
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		switch {
		case strings.HasPrefix(line, "```") && block == "":
			block = strings.TrimSpace(line[3:])
			d.blocks[block] = ""
			continue
		case strings.HasPrefix(line, "```"):
			block = ""
			continue
		case block != "":
			d.blocks[block] += line
			continue
		}
		d.quoted = append(d.quoted, quotes(line)...)
		columns = d.addRow(columns, number, line)
	}
	return d
}

// addRow adds a row of a table to the document. It returns the names of the table's columns, nil
// outside of a table.
func (d *document) addRow(columns []string, number int, line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if columns == nil {
		return cells
	}
	r := row{line: number}
	for i, name := range columns {
		switch {
		case i >= len(cells) || strings.Trim(cells[i], "-") == "":
		case name == "C":
			r.c = cells[i]
		case name == "Go":
			r.goCell = cells[i]
		}
	}
	if r.c != "" || r.goCell != "" {
		d.rows = append(d.rows, r)
	}
	return columns
}
