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

// File says where the default logger writes.
type File struct {
	// Name of the file, in which %p stands for the process's number and %h for the name
	// of the host, or stderr, which empty is as well. Standard output is the program's: stdout is refused. A file that is there is emptied.
	Name string

	// MaxSize is what a message must not make it longer than: then the file is renamed to
	// NAME.1, or with Keep 0 removed, and a new one begun. 0: no limit.
	MaxSize int

	// Keep is how many of those are kept, NAME.1 being the youngest.
	Keep int
}

// opened is what SetFile was called with last; guarded by setMu.
var opened File

// SetFile makes the default logger write to f, unless it does already. It has no effect on a
// logger given to SetLogger. Any goroutine may call it.
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
		return nil, errors.New("standard output is the program's")
	}
	w := &rotating{name: ExpandName(strings.TrimPrefix(f.Name, "file:")), max: f.MaxSize, keep: f.Keep}
	if w.max <= 0 {
		w.max = math.MaxInt
	}
	return w, w.begin()
}

// ExpandName fills in the process's number for %p and the host's name for %h, as settings that name
// files have them.
func ExpandName(name string) string {
	host, _ := os.Hostname() // empty if the system does not tell
	return strings.NewReplacer("%p", strconv.Itoa(os.Getpid()), "%h", host).Replace(name)
}

// rotating is a file that is begun anew when it is full.
type rotating struct {
	name      string
	max, keep int

	mu   sync.Mutex
	file *os.File // guarded by mu, nil if it could not be made
	size int      // guarded by mu
}

// begin opens the file, empty.
func (r *rotating) begin() (err error) {
	r.size = 0
	r.file, err = os.OpenFile(r.name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o666)
	return err
}

// turn closes a full file and begins the next.
func (r *rotating) turn() error {
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
	last := 1 // of those that there will be
	for last < r.keep && exists(backup(last)) {
		last++
	}
	for k := last; k > 0; k-- { // which replaces the oldest
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

// Write implements zapcore.WriteSyncer. Where the file cannot be written messages go to
// stderr: there is nobody else to tell.
func (r *rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil && r.size > 0 && r.size+len(p) > r.max {
		if err := r.turn(); err != nil {
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
