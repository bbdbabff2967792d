//go:build linux

package verbstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sysfs makes a tree of files like sysfs in a directory, out of a listing with
// lines of the forms
//
//	path: text      a file with a line of text
//	path -> target  a symbolic link
//	path ! EINVAL   something that is listed and cannot be read
//	# …             a comment
//
// {2..1023} in a path stands for each of the numbers.
func Sysfs(dir, listing string) error {
	for n, line := range strings.Split(listing, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if err := sysfsLine(dir, line); err != nil {
			return fmt.Errorf("line %d, %q: %w", n+1, line, err)
		}
	}
	return nil
}

func sysfsLine(dir, line string) error {
	var path string
	var create func(name string) error
	if p, target, ok := strings.Cut(line, " -> "); ok {
		path, create = p, func(name string) error { return os.Symlink(target, name) }
	} else if p, text, ok := strings.Cut(line, ": "); ok {
		path, create = p, func(name string) error { return os.WriteFile(name, []byte(text+"\n"), 0o644) }
	} else if p, _, ok := strings.Cut(line, " ! "); ok {
		path, create = p, func(name string) error { return os.Symlink("nowhere", name) }
	} else {
		return fmt.Errorf("neither a file nor a link")
	}
	head, rest, ok := strings.Cut(path, "{")
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, head+"x")), 0o755); err != nil {
		return err
	}
	if !ok {
		return create(filepath.Join(dir, path))
	}
	numbers, tail, _ := strings.Cut(rest, "}")
	first, last, _ := strings.Cut(numbers, "..")
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || strings.Contains(tail, "/") {
		return fmt.Errorf("{%s}%s is not a range at the end", numbers, tail)
	}
	one := filepath.Join(dir, head+first+tail)
	if err := create(one); err != nil {
		return err
	}
	for i := from + 1; i <= to; i++ {
		if err := os.Link(one, filepath.Join(dir, head+strconv.Itoa(i)+tail)); err != nil {
			return err
		}
	}
	return nil
}
