package repocheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ban is a package, function or statement that a part of the module must not use, and why.
type ban struct {
	what   []string // packages; names of packages, as time.Now; "go" is the statement
	in     []string // folders, or the name of a set of them; a trailing /... includes subfolders
	except []string // exempt folders and files; one that needs no exemption is an error
	why    string
}

// Names for sets of folders.
const (
	// libraries are the packages that become part of users' programs: all except commands, helpers
	// of tests (folders whose names end in test) and checks of the source.
	libraries = "the libraries"
	// everything is all Go code except tests.
	everything = "everything"
)

var bans = []ban{
	{
		what: []string{"testing"}, in: []string{libraries, "cmd/...", "uct/ib/cmd/...", "examples/...", "interop/..."},
		why: "it brings its flags and its machinery into programs; what tests share is in folders whose names end in test",
	},
	{
		what: []string{"os/signal"}, in: []string{libraries},
		why: "signals belong to the program",
	},
	{
		what: []string{"os/exec", "plugin"}, in: []string{libraries},
		why: "a library starts no program and loads none",
	},
	{
		what: []string{"os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln"}, in: []string{libraries},
		why: "the process belongs to the user",
	},
	{
		what: []string{"log", "log/slog"}, in: []string{libraries},
		except: []string{"ucs/log", "ucp/context.go"}, // these take a handler of the program
		why:    "messages go through ucs/log, which knows the user's logger and level",
	},
	{
		what: []string{"fmt.Print", "fmt.Printf", "fmt.Println", "os.Stdout"}, in: []string{libraries},
		why: "standard output belongs to the program",
	},
	{
		what: []string{"os.Getenv", "os.LookupEnv", "os.Environ"}, in: []string{libraries},
		except: []string{"ucs/config/...", "ucs/log", "uct/ib/internal/...", "uct/ib/verbs/internal/mlx5/context.go"},
		why:    "settings come through ucs/config, which says where each came from; its own level, and VERBS_DEBUG, are wanted before, and VERBS_BLUEFLAME is for who uses verbs without it",
	},
	{
		what: []string{"go", module + "/internal/platform.Go"}, in: []string{libraries},
		except: []string{"internal/platform", "ucp/background.go", "ucpnet/close.go", "ucpnet/conn.go", "ucpnet/listener.go", "uct/ib/internal/handles/resolve.go", "uct/ib/ud/background.go", "uct/tcp/handshake.go"},
		why:    "everything happens on the goroutine that makes progress; nothing runs behind the user's back; but crypto/tls cannot leave a handshake in the middle, nor the kernel a search for a neighbor, who asks ucp, or ud, for one in the background gets one, and connections as those of package net are opened and ended in the background",
	},
	{
		what:   []string{"time.Now", "time.Since", "time.Until"},
		in:     []string{libraries},
		except: []string{"internal/netlink/recent_linux.go", "internal/platform", "ucpnet/listener.go", "ucpnet/wait_context.go", "uct/shm/cma/endpoint.go", "uct/shm/life.go"},
		why:    "the clock is read once a round, by uct.Worker.Now; a message reads none. Refusals do, not to be logged too often; and what a peer can make slow is timed",
	},
	{
		what:   []string{"time.Sleep", "time.After", "time.AfterFunc", "time.Tick", "time.NewTicker", "time.NewTimer", module + "/internal/platform.AfterFunc"},
		in:     []string{libraries},
		except: []string{"internal/platform", "ucp/background.go", "ucpnet/wait_context.go", "ucs/event/sleeper_other.go", "uct/ib/ud/background.go"},
		why:    "who waits sleeps in the worker's event set, with its timers, or a peer's message does not wake it; who looks whether nobody does has a timer of Go",
	},
	{
		what: []string{"net"}, in: []string{libraries},
		except: []string{"internal/topo", "ucpnet", "uct/ib/rdmacm/sockaddr.go", "uct/tcp/pipe.go"},
		why:    "its sockets are the runtime's, its resolver runs goroutines; addresses are of net/netip. Listing interfaces is what it is for",
	},
	{
		what: []string{"net/http", "expvar", "encoding/gob", "html/template", "text/template", "regexp"}, in: []string{libraries},
		why: "too heavy for what every process of a job links",
	},
	{
		what: []string{"math/rand"}, in: []string{everything},
		why: "math/rand/v2 seeds itself and has no global lock",
	},
	{
		what: []string{"reflect"}, in: []string{libraries},
		except: []string{"uct/ib/internal/...", "ucs/config/..."},
		why:    "what types decide the compiler decides; tables of settings and of the kernel's structs are walked when they are set up",
	},
	{
		what: []string{"runtime/debug"}, in: []string{libraries},
		except: []string{"internal/fault/..."},
		why:    "a fault is an error where a peer's memory is touched; anywhere else it is a bug and shall end the process",
	},
	{
		what: []string{"go.uber.org/zap", "go.uber.org/zap/zapcore", module + "/ucs/log"},
		in:   []string{"proto/...", "uct/ib/verbs/...", "uct/ib/rdmacm/...", "internal/..."},
		why:  "what serves by itself tells its caller, by errors, and nobody else",
	},
	{
		what: []string{
			"context", "math/rand/v2", "net", "os", "runtime", "sync", "sync/atomic", "syscall", "time",
			"golang.org/x/sys/unix", module + "/internal/sys", module + "/internal/word",
		},
		in:  []string{"proto/..."},
		why: "formats and decisions are functions of their arguments: no clock, no chance, no system, nothing shared",
	},
	{
		what: []string{"sync"}, in: []string{"proto/...", "ucp/internal/...", "uct/self"},
		except: []string{"ucp/internal/account/siblings.go", "ucp/internal/engine", "ucp/internal/regions", "ucp/internal/wakeset"},
		why:    "one goroutine at a time has a worker and all below it; only what belongs to a context or to the process has to lock",
	},
	{
		what:   []string{"golang.org/x/sys/unix", "syscall"},
		in:     []string{"proto/...", "ucp/...", "ucs/...", "uct", "uct/internal/...", "uct/kit", "uct/self"},
		except: []string{"ucp/internal/wakeset", "ucp/wakeup.go", "ucs/event", "uct/internal/host"},
		why:    "system calls are made by transports, by internal/sys and by ucs/event; what is above asks them",
	},
}

// covers reports whether a pattern includes a file, or its folder.
func covers(pattern, file string) bool {
	dir := file[:max(strings.LastIndexByte(file, '/'), 0)]
	switch pattern {
	case everything:
		return true
	case libraries:
		for part := range strings.SplitSeq(dir, "/") {
			if strings.HasSuffix(part, "test") {
				return false
			}
		}
		if within(dir, "uct/ib/cmd/...") {
			return false
		}
		parts := append(strings.Split(dir, "/"), "")
		if parts[0] == "internal" {
			return !slices.Contains([]string{"apicheck", "argscheck", "fuzzseeds", "getopt", "insn", "repocheck", "rocedump", "ticks", "vm"}, parts[1])
		}
		return slices.Contains([]string{"proto", "ucp", "ucpnet", "ucs", "uct"}, parts[0])
	}
	return pattern == file || within(dir, pattern)
}

func coveredBy(patterns []string, file string) string {
	for _, p := range patterns {
		if covers(p, file) {
			return p
		}
	}
	return ""
}

// uses returns what a file uses that a ban could name, with the line of the first use.
func uses(fset *token.FileSet, f *ast.File) map[string]int {
	found := make(map[string]int)
	note := func(what string, pos token.Pos) {
		if _, ok := found[what]; !ok {
			found[what] = fset.Position(pos).Line
		}
	}
	paths := make(map[string]string) // import paths, by their name in the file
	for _, imp := range f.Imports {
		path, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			continue
		}
		note(path, imp.Pos())
		name := path[strings.LastIndexByte(path, '/')+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		paths[name] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			note("go", n.Pos())
		case *ast.SelectorExpr:
			// An identifier of a local variable would have an object.
			if id, ok := n.X.(*ast.Ident); ok && id.Obj == nil && paths[id.Name] != "" {
				note(paths[id.Name]+"."+n.Sel.Name, n.Pos())
			}
		}
		return true
	})
	return found
}

// check returns the places where files violate the ban, and the exceptions that are not needed.
func (b *ban) check(files map[string]map[string]int) (broken, idle []string) {
	idle = slices.Clone(b.except)
	for file, used := range files {
		if coveredBy(b.in, file) == "" {
			continue
		}
		for _, what := range b.what {
			line, ok := used[what]
			if !ok {
				continue
			}
			if by := coveredBy(b.except, file); by != "" {
				idle = slices.DeleteFunc(idle, func(e string) bool { return e == by })
				continue
			}
			broken = append(broken, fmt.Sprintf("%s:%d: %s: %s", file, line, what, b.why))
		}
	}
	slices.Sort(broken)
	return broken, idle
}

func TestBans(t *testing.T) {
	files := make(map[string]map[string]int)
	for _, s := range sources(t) {
		if !s.test() {
			files[s.name] = uses(s.fset, s.file)
		}
	}
	for _, b := range bans {
		broken, idle := b.check(files)
		for _, s := range broken {
			t.Error(s)
		}
		for _, e := range idle {
			t.Errorf("%s does without %v: take it off the exceptions", e, b.what)
		}
	}
}

func TestBan(t *testing.T) {
	parse := func(text string) map[string]int {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "f.go", "package p\n"+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		return uses(fset, f)
	}
	clock := `import clock "time"; var x = clock.Now()`
	for _, tc := range []struct {
		ban          ban
		file, text   string
		broken, idle int
	}{
		{ban{what: []string{"time"}, in: []string{"proto/..."}}, "proto/a.go", clock, 1, 0},
		{ban{what: []string{"time.Now"}, in: []string{"proto/..."}}, "proto/a.go", clock, 1, 0},
		{ban{what: []string{"time.Now"}, in: []string{"proto/..."}}, "ucp/a.go", clock, 0, 0},
		{ban{what: []string{"time.Sleep"}, in: []string{"proto/..."}}, "proto/a.go", clock, 0, 0},
		{ban{what: []string{"time.Now"}, in: []string{libraries}}, "uct/tcp/a.go", clock, 1, 0},
		{ban{what: []string{"time.Now"}, in: []string{libraries}}, "uct/ucttest/sim/a.go", clock, 0, 0},
		{ban{what: []string{"time.Now"}, in: []string{libraries}}, "internal/sys/a.go", clock, 1, 0},
		{ban{what: []string{"time.Now"}, in: []string{libraries}}, "internal/repocheck/room/a.go", clock, 0, 0},
		{ban{what: []string{"time.Now"}, in: []string{libraries}}, "cmd/x/a.go", clock, 0, 0},
		{ban{what: []string{"time.Now"}, in: []string{everything}}, "cmd/x/a.go", clock, 1, 0},
		{ban{what: []string{"time"}, in: []string{"ucp/..."}, except: []string{"ucp/a.go"}}, "ucp/a.go", clock, 0, 0},
		{ban{what: []string{"time"}, in: []string{"ucp/..."}, except: []string{"ucp/a.go"}}, "ucp/b.go", clock, 1, 1},
		{ban{what: []string{"time"}, in: []string{"ucp/..."}, except: []string{"ucp/x/..."}}, "ucp/x/y/b.go", clock, 0, 0},
		{ban{what: []string{"go"}, in: []string{"uct"}}, "uct/a.go", "func f() { go f() }", 1, 0},
		{ban{what: []string{"os.Exit"}, in: []string{"uct"}}, "uct/a.go", `import "os"; func f(os s) { os.Exit() }`, 0, 0},
	} {
		broken, idle := tc.ban.check(map[string]map[string]int{tc.file: parse(tc.text)})
		if len(broken) != tc.broken || len(idle) != tc.idle {
			t.Errorf("%v in %v, %s: broken %v, idle %v", tc.ban.what, tc.ban.in, tc.file, broken, idle)
		}
	}
}

// dependency is a module that may be imported.
type dependency struct {
	path  string
	tests bool // only for tests and their helpers
	why   string
}

var dependencies = []dependency{
	{"golang.org/x/sys", false, "system calls and what they take"},
	{"github.com/google/uuid", false, "the identity of workers, as C makes it"},
	{"go.uber.org/zap", false, "structured logs at no cost while they are off"},
	{"pgregory.net/rapid", true, "models of state machines"},
	{"github.com/google/go-cmp", true, "differences that can be read"},
}

// TestDependencies: the module uses no dependency beyond the list, as all users have to trust its
// code.
func TestDependencies(t *testing.T) {
	needed := make(map[string]bool)
	for _, s := range sources(t) {
		for _, imp := range s.imports {
			first, _, _ := strings.Cut(imp, "/")
			if !strings.Contains(first, ".") || imp == module || strings.HasPrefix(imp, module+"/") {
				continue // the standard library and this module
			}
			i := slices.IndexFunc(dependencies, func(d dependency) bool { return within(imp, d.path+"/...") })
			switch {
			case i < 0:
				t.Errorf("%s imports %s, which is no dependency", s.name, imp)
			case dependencies[i].tests && !s.test() && covers(libraries, s.name):
				t.Errorf("%s imports %s: tests only", s.name, imp)
			default:
				needed[dependencies[i].path] = true
			}
		}
	}
	for _, d := range dependencies {
		if !needed[d.path] {
			t.Errorf("nothing imports %s (%s)", d.path, d.why)
		}
	}
}

// TestDirectives: the module does not use go:linkname, whose targets can change with any release of
// Go.
func TestDirectives(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if directive, _, _ := strings.Cut(c.Text, " "); directive == "//go:linkname" {
					t.Errorf("%s:%d: %s", s.name, s.fset.Position(c.Pos()).Line, c.Text)
				}
			}
		}
	}
}
