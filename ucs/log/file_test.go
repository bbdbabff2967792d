package log

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// toFile has the default logger write to a file during the test.
func toFile(t *testing.T, f File) {
	t.Helper()
	restore(t)
	was := opened
	t.Cleanup(func() { opened = was })
	if err := SetFile(f); err != nil {
		t.Fatal(err)
	}
	SetLevel(LevelInfo)
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFile checks that messages go to a file whose name contains the process id and the host name.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	toFile(t, File{Name: "file:" + filepath.Join(dir, "log.%p.%h")})
	Info("once")
	if err := SetFile(opened); err != nil { // must not truncate the file
		t.Fatal(err)
	}
	Info("more")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(dir, "log."+strconv.Itoa(os.Getpid())+"."+host)); strings.Count(got, "\n") != 2 || !strings.Contains(got, "once") || !strings.Contains(got, "more") {
		t.Errorf("the file has %q", got)
	}
	for _, name := range []string{filepath.Join(dir, "no", "such"), "stdout"} {
		if err := SetFile(File{Name: name}); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
	Info("still")
	if got := read(t, filepath.Join(dir, "log."+strconv.Itoa(os.Getpid())+"."+host)); !strings.Contains(got, "still") {
		t.Error("a mistake has taken the file away")
	}
}

// TestFileRotates checks that full files are kept under numbers, and that the oldest are removed.
func TestFileRotates(t *testing.T) {
	for keep, want := range map[int][]string{0: {"9"}, 1: {"9", "8"}, 3: {"9", "8", "7", "6"}} {
		name := filepath.Join(t.TempDir(), "log")
		toFile(t, File{Name: name, MaxSize: 50, Keep: keep}) // one message fills a file
		for i := range 10 {
			Info("message " + strconv.Itoa(i))
		}
		for k, number := range want {
			file := name
			if k > 0 {
				file += "." + strconv.Itoa(k)
			}
			if got := read(t, file); strings.Count(got, "\n") != 1 || !strings.Contains(got, "message "+number) {
				t.Errorf("%d kept: file %d has %q, want message %s", keep, k, got, number)
			}
		}
		if exists(name + "." + strconv.Itoa(len(want))) {
			t.Errorf("%d kept: there is one more", keep)
		}
	}
}

// TestFileLost checks that messages go to stderr if the file can no longer be written.
func TestFileLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	toFile(t, File{Name: filepath.Join(dir, "log"), MaxSize: 50})
	Info("first")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	Info("second, which does not fit, however it is")
	Info("third")
	os.Stderr = stderr
	w.Close()
	var got strings.Builder
	buf := make([]byte, 4096)
	for n, err := r.Read(buf); err == nil; n, err = r.Read(buf) {
		got.Write(buf[:n])
	}
	for _, want := range []string{"UCX_LOG_FILE: ", "second", "third"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("stderr has %q, no %s", got.String(), want)
		}
	}
}
