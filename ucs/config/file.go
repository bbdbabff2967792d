package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ucx-go/ucx/ucs"
)

const (
	// fileName is the name of a settings file in the folders of searchPath.
	fileName = "ucx.conf"

	// maxFile bounds the size of a settings file, in bytes.
	maxFile = 1 << 20
)

// searchPath lists the files Read looks at, weakest first: /etc/ucx, ../etc/ucx
// beside the program (where C UCX looks beside its library), the home folder,
// $UCX_CONFIG_DIR and the working folder (ucs_config_parse_config_files in C).
func searchPath(getenv func(string) string, executable func() (string, error)) []string {
	paths := []string{filepath.Join("/etc/ucx", fileName)}
	if exe, err := executable(); err == nil {
		paths = append(paths, filepath.Join(filepath.Dir(exe), "../etc/ucx", fileName))
	}
	if home := getenv("HOME"); home != "" {
		paths = append(paths, filepath.Join(home, fileName))
	}
	if dir := getenv("UCX_CONFIG_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, fileName))
	}
	return append(paths, fileName)
}

// readFile hands the settings of one file to put. A file that is not there or
// may not be read is skipped.
func readFile(path string, put func(name, value string, o Origin)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	return parseFile(f, path, put)
}

// parseFile reads lines "NAME=value" or "NAME: value". Lines that start with #
// or ; are comments, as is the rest of a line after a blank and a ;. A [section]
// groups lines.
func parseFile(r io.Reader, path string, put func(name, value string, o Origin)) error {
	lr := &io.LimitedReader{R: r, N: maxFile + 1}
	sc := bufio.NewScanner(lr)
	sc.Buffer(make([]byte, 0, 4096), maxValue)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(sc.Text(), "\ufeff"))
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			if !strings.Contains(line, "]") {
				return fileError(path, n, "section without a closing bracket")
			}
			continue
		}
		i := strings.IndexAny(line, "=:")
		if i < 0 {
			return fileError(path, n, "neither a setting nor a section")
		}
		name := strings.TrimSpace(line[:i])
		put(name, strings.TrimSpace(cutComment(line[i+1:])), Origin{Kind: FromFile, Path: path, Line: n, Variable: name})
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("config: %s: %w: %w", path, err, ucs.ErrInvalidParam)
	}
	if lr.N == 0 {
		return fmt.Errorf("config: %s: larger than %d bytes: %w", path, maxFile, ucs.ErrInvalidParam)
	}
	return nil
}

// cutComment drops a comment that starts with a blank and a semicolon.
func cutComment(s string) string {
	for i := 1; i < len(s); i++ {
		if s[i] == ';' && (s[i-1] == ' ' || s[i-1] == '\t') {
			return s[:i]
		}
	}
	return s
}

func fileError(path string, line int, what string) error {
	return fmt.Errorf("config: %s:%d: %s: %w", path, line, what, ucs.ErrInvalidParam)
}
