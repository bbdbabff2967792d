package repocheck

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"os"
	"strings"
	"testing"
)

// mostFiles is the maximum number of files in a package, without tests, for all systems together,
// so that a package stays easy to survey. A larger package is listed in rooms.txt with its number
// of files. The listed numbers may only fall: one that exceeds the actual number is an error, too.
//
// Dependencies between the files of a package are not measured: the compiler separates packages,
// and a rule about calls between files would favor many tiny files.
const (
	roomsFile = "testdata/rooms.txt"
	mostFiles = 40
)

var lower = flag.Bool("lower", false, "lower the numbers of "+roomsFile+" to what is there")

// room is a line of rooms.txt.
type room struct {
	dir   string
	files int
}

func (r room) String() string { return fmt.Sprintf("%-32s %5d", r.dir, r.files) }

// readRooms returns the comment at the top of the file, and its lines.
func readRooms(t *testing.T) (head string, rooms []room) {
	t.Helper()
	text, err := os.ReadFile(roomsFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			head += line
			continue
		}
		var r room
		if n, err := fmt.Sscan(line, &r.dir, &r.files); n != 2 || seen[r.dir] {
			t.Fatalf("%s: %q: %v", roomsFile, line, err)
		}
		seen[r.dir] = true
		rooms = append(rooms, r)
	}
	return head, rooms
}

// check returns an error text for a number of files under a limit, and the correct limit.
func (r room) check(files int) (wrong string, lowered room) {
	lowered = room{r.dir, min(r.files, files)}
	switch {
	case files > r.files:
		return fmt.Sprintf("has %d files, and may have %d: is there a package among them?", files, r.files), lowered
	case r.files > mostFiles && files <= mostFiles:
		return fmt.Sprintf("has %d files, as any package may: take it out of %s", files, roomsFile), lowered
	case files < r.files && r.files > mostFiles:
		return fmt.Sprintf("has %d files: lower its number in %s", files, roomsFile), lowered
	}
	return "", lowered
}

func TestRooms(t *testing.T) {
	files := make(map[string]int)
	for _, s := range sources(t) {
		if !s.test() {
			files[s.dir()]++
		}
	}
	head, rooms := readRooms(t)
	out := bytes.NewBufferString(head)
	for _, r := range rooms {
		wrong, lowered := r.check(files[r.dir])
		if wrong != "" && (!*lower || files[r.dir] > r.files) {
			t.Errorf("%s %s", r.dir, wrong)
		}
		if lowered.files > mostFiles {
			fmt.Fprintln(out, lowered)
		}
		delete(files, r.dir)
	}
	for dir, n := range files {
		if wrong, _ := (room{dir, mostFiles}).check(n); wrong != "" {
			t.Errorf("%s %s", dir, wrong)
		}
	}
	if *lower {
		if err := os.WriteFile(roomsFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckRoom(t *testing.T) {
	for _, tc := range []struct {
		limit, files int
		want         string // part of it
		lowered      int
	}{
		{mostFiles, 3, "", 3},
		{mostFiles, mostFiles, "", mostFiles},
		{mostFiles, mostFiles + 1, "may have 40", mostFiles},
		{60, 60, "", 60},
		{60, 61, "may have 60", 60},
		{60, 59, "lower its number", 59},
		{60, 12, "take it out", 12},
	} {
		wrong, lowered := room{"x", tc.limit}.check(tc.files)
		if (wrong == "") != (tc.want == "") || !strings.Contains(wrong, tc.want) || lowered.files != tc.lowered {
			t.Errorf("%d files of %d: %q, %d; want %q, %d", tc.files, tc.limit, wrong, lowered.files, tc.want, tc.lowered)
		}
	}
}

// Very many methods of a type are a sign that a part of it should be a type of its own, in a file
// named after it.
var mostMethods = map[string]int{"Worker": 120, "Endpoint": 100, "Request": 50}

func TestMethods(t *testing.T) {
	methods := make(map[string]int)
	for _, s := range sources(t) {
		if s.test() || s.dir() != "ucp" {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[receiver(f)]++
			}
		}
	}
	for name, most := range mostMethods {
		if n := methods[name]; n == 0 || n > most {
			t.Errorf("ucp.%s has %d methods, and may have %d", name, n, most)
		}
	}
	for name, n := range methods {
		if most := mostMethods[name]; most == 0 && n > 60 {
			t.Errorf("ucp.%s has %d methods: what are its parts?", name, n)
		}
	}
}

// receiver returns the type name of a method's receiver.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if i, ok := t.(*ast.IndexExpr); ok {
		t = i.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
