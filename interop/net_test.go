//go:build linux

package interop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucpnet"
)

// exampleOf builds C's example of a server and a client in dir. It returns "" if the installation
// lacks it, and whether this release's server answers.
func exampleOf(t *testing.T, prefix, dir string) (path string, answers bool) {
	t.Helper()
	const name = "ucp_client_server"
	out := filepath.Join(dir, name)
	text := buildExample(t, prefix, name, out)
	if text == nil {
		return "", false
	}
	return out, bytes.Contains(text, []byte("FIN message"))
}

const (
	streamRounds = 3
	streamSize   = 100000
)

// converse does what the example does: the client sends messages, and the server answers with one
// if its release does.
func converse(c net.Conn, client, answers bool) error {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	there := func() error {
		_, err := io.CopyN(io.Discard, c, streamRounds*streamSize)
		return err
	}
	back := func() error {
		_, err := c.Write(make([]byte, streamSize))
		return err
	}
	if client {
		there = func() error {
			_, err := c.Write(make([]byte, streamRounds*streamSize))
			return err
		}
		back = func() error {
			_, err := io.CopyN(io.Discard, c, streamSize)
			return err
		}
	}
	if err := there(); err != nil || !answers {
		return err
	}
	return back()
}

// TestNet runs package ucpnet against C's example over streams.
func TestNet(t *testing.T) {
	for _, prefix := range prefixes() {
		t.Run(prefix, func(t *testing.T) {
			example, answers := exampleOf(t, prefix, t.TempDir())
			if example == "" {
				needtest.Tool(t, "the example ucp_client_server of C UCX")
			}
			args := []string{"-c", "stream", "-i", fmt.Sprint(streamRounds), "-s", fmt.Sprint(streamSize)}

			t.Run("C client", func(t *testing.T) {
				l, err := ucpnet.Listen("ucp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				_, port, err := net.SplitHostPort(l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				cmd := exec.CommandContext(t.Context(), example, append(args, "-a", "127.0.0.1", "-p", port)...)
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := cmd.Wait(); err != nil {
						t.Errorf("the C client: %v\n%s", err, out.Bytes())
					}
				}()
				l.(*ucpnet.Listener).SetDeadline(time.Now().Add(30 * time.Second))
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := converse(c, false, answers); err != nil {
					t.Fatal(err)
				}
				if err := c.(*ucpnet.Conn).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("CloseWrite toward C: %v", err)
				}
				if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("after C has closed: Read = %d, %v", n, err)
				}
			})

			t.Run("C server", func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), example, append(args, "-l", "127.0.0.1", "-p", "0")...)
				text, err := cmd.StderrPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					cmd.Process.Kill() // it never exits
					cmd.Wait()
				}()
				port := ""
				for lines := bufio.NewScanner(text); port == "" && lines.Scan(); {
					if m := regexp.MustCompile(`listening on IP .* port (\d+)`).FindStringSubmatch(lines.Text()); m != nil {
						port = m[1]
					}
				}
				c, err := ucpnet.Dial("ucp", net.JoinHostPort("127.0.0.1", port))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := converse(c, true, answers); err != nil {
					t.Fatal(err)
				}
				if !answers { // but closes the connection
					if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
						t.Errorf("after C has closed: Read = %d, %v", n, err)
					}
				}
			})
		})
	}
}
