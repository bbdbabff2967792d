package apicheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var listed = regexp.MustCompile(`^\t?(?:const|var|func|type|field|method)(?: \([^)]*\))? (\w+)`)

// Names returns the names in the lists in a folder: package.Name, and package.Type.Member for the
// fields and methods of types.
func Names(folder string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pkg := strings.TrimSuffix(filepath.Base(file), ".txt")
		pkg = pkg[strings.LastIndexByte(pkg, '-')+1:]
		of := ""
		for line := range strings.Lines(string(text)) {
			m := listed.FindStringSubmatch(line)
			switch {
			case m == nil:
			case strings.HasPrefix(line, "\t"):
				names[of+"."+m[1]] = true
			default:
				of = pkg + "." + m[1]
				names[of] = true
			}
		}
	}
	return names, nil
}
