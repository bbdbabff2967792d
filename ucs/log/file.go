package log

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"go.uber.org/zap/zapcore"
)

// File is the file that the default logger writes to.
type File struct {
	// Name is the name of the file: %p stands for the process id, %h for the host name. An
	// empty name and "stderr" mean stderr. "stdout" is refused, because standard output
	// belongs to the program. An existing file is truncated.
	Name string

	// MaxSize is the size limit of the file in bytes. A message that would exceed it goes
	// to a new file, and the old one is renamed to NAME.1, or removed if Keep is 0. A
	// MaxSize of 0 means no limit.
	MaxSize int

	// Keep is the number of renamed files that are kept; NAME.1 is the most recent.
	Keep int
}

// opened is the argument of the last successful SetFile; guarded by setMu.
var opened File

// SetFile makes the default logger write to f, unless it already does. It has no effect on a logger
// that the program has set. Any goroutine may call it.
func SetFile(f File) error {
	setMu.Lock()
	same := f == opened
	setMu.Unlock()
	if same {
		return nil
	}
	w, err := f.open()
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	change(func(s *state) {
		opened, s.stderr = f, newWriter(w)
	})
	return nil
}

func (f *File) open() (zapcore.WriteSyncer, error) {
	switch f.Name {
	case "", "stderr":
		return stderr(), nil
	case "stdout":
		return nil, errors.New("standard output is reserved for the program")
	}
	w := &rotating{name: ExpandName(strings.TrimPrefix(f.Name, "file:")), max: f.MaxSize, keep: f.Keep}
	if w.max <= 0 {
		w.max = math.MaxInt
	}
	return w, w.begin()
}

// ExpandName replaces %p in a file name by the process id and %h by the host name.
func ExpandName(name string) string {
	host, _ := os.Hostname() // empty if the host name is unavailable
	return strings.NewReplacer("%p", strconv.Itoa(os.Getpid()), "%h", host).Replace(name)
}

// rotating is a log file that is replaced by a new one when it is full.
type rotating struct {
	name      string
	max, keep int // File.MaxSize and File.Keep

	mu   sync.Mutex
	file *os.File // guarded by mu, nil if it could not be created
	size int      // bytes written to file; guarded by mu
}

// begin creates the file, or truncates it.
func (r *rotating) begin() (err error) {
	r.size = 0
	r.file, err = os.OpenFile(r.name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o666)
	return err
}

// turn closes a full file, renames or removes it, and begins a new one.
func (r *rotating) rotate() error {
	r.file.Close()
	r.file = nil
	if r.keep == 0 {
		if err := os.Remove(r.name); err != nil {
			return err
		}
		return r.begin()
	}
	backup := func(k int) string {
		if k == 0 {
			return r.name
		}
		return r.name + "." + strconv.Itoa(k)
	}
	last := 1 // the highest number that a backup will have
	for last < r.keep && exists(backup(last)) {
		last++
	}
	for k := last; k > 0; k-- { // the first rename replaces the oldest backup
		if err := os.Rename(backup(k-1), backup(k)); err != nil {
			return err
		}
	}
	return r.begin()
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Write implements zapcore.WriteSyncer. If the file cannot be opened, messages and the error go to
// stderr, because there is no other place for them.
func (r *rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil && r.size > 0 && r.size+len(p) > r.max {
		if err := r.rotate(); err != nil {
			fmt.Fprintf(os.Stderr, "UCX_LOG_FILE: %v\n", err)
		}
	}
	if r.file == nil {
		return os.Stderr.Write(p)
	}
	n, err := r.file.Write(p)
	r.size += n
	return n, err
}

// Sync implements zapcore.WriteSyncer.
func (r *rotating) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	return r.file.Sync()
}
