package config

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
)

const (
	// fileName is the name of a settings file in the folders of searchPath.
	fileName = "ucx.conf"

	// maxFile bounds the size of a settings file, in bytes.
	maxFile = 1 << 20
)

// searchPath lists the settings files that Read reads, in order: later files override earlier ones.
// They are ucx.conf in /etc/ucx, in ../etc/ucx relative to the program's directory (C UCX uses the
// directory of its library), in the home directory, in $UCX_CONFIG_DIR and in the working directory
// (ucs_config_parse_config_files in src/ucs/config/parser.c).
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

// putFunc stores the setting in one line of a settings file.
type putFunc func(variable, value string, o Origin)

// readFile passes the settings of one file to put. It skips a path that is not a readable regular
// file.
func readFile(path string, h *host, put putFunc) error {
	// Opening a named pipe could block forever.
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		log.Debug("skipping configuration file", zap.Error(err))
		return nil
	}
	defer f.Close()
	return parseFile(f, path, h, put)
}

// parseFile passes the settings in a file to put. A setting is a line "NAME=value" or "NAME:
// value". Lines that start with # or ; are comments, as is the rest of a line after a blank and a
// semicolon. Settings after a [section] apply only to the machines that the section's filter lines
// select (see the type host).
func parseFile(r io.Reader, path string, h *host, put putFunc) error {
	lr := &io.LimitedReader{R: r, N: maxFile + 1}
	sc := bufio.NewScanner(lr)
	sc.Buffer(make([]byte, 0, 4096), maxValue)
	skip := false // the section does not apply to this machine
	for n := 1; sc.Scan(); n++ {
		text := sc.Text()
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		line := strings.TrimSpace(text)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			if !strings.Contains(line, "]") {
				return fileError(path, n, "section without a closing bracket")
			}
			skip = false
			continue
		}
		i := strings.IndexAny(line, "=:")
		if i < 0 {
			return fileError(path, n, "neither a setting nor a section")
		}
		name, value := strings.TrimSpace(line[:i]), strings.TrimSpace(cutComment(line[i+1:]))
		switch {
		case skip:
		case h.isFilter(name):
			skip = !h.matches(name, value)
		default:
			put(name, value, Origin{Kind: FromFile, Path: path, Line: n, Variable: name})
		}
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
