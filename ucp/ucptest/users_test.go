//go:build linux

package ucptest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// userVar is the environment variable that makes the test binary one of the two processes of
// TestUsers.
const userVar = "USERS_TEST_PEER"

// TestUsers connects two processes of one user, and of two users. Only processes of one user share
// memory; others use tcp, and the explanation has the reason.
func TestUsers(t *testing.T) {
	if os.Getenv(userVar) != "" {
		userPeer(t)
		return
	}
	needtest.Goroutines(t)
	if os.Geteuid() != 0 {
		needtest.Right(t, "root, to become other users")
	}
	needCalls(t, "sysv", "cma")
	program := publicProgram(t)
	for _, c := range []struct {
		name   string
		users  [2]uint32
		link   string // POSIX_USE_PROC_LINK: with n memory has names
		lane   string
		reason []string // for each transport of shared memory
	}{
		{"one user", [2]uint32{65534, 65534}, "y", "posix", nil},
		{"one user, names", [2]uint32{65534, 65534}, "n", "posix", nil},
		{"two users, names", [2]uint32{65534, 65533}, "n", "tcp", []string{
			"opening /dev/shm/", "permission denied: both processes must belong to one user",
		}},
		{"two users", [2]uint32{65534, 65533}, "y", "tcp", []string{
			"posix", "opening /proc/", "permission denied: both processes must belong to one user",
			"sysv", "System V segment", "both processes must belong to one user",
			"cma", "operation not permitted",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var peers [2]*userProcess
			for i, uid := range c.users {
				peers[i] = startUser(t, program, uid, "UCX_POSIX_USE_PROC_LINK="+c.link)
			}
			for i, p := range peers {
				if _, err := fmt.Fprintln(p.in, peers[1-i].value(t, "address")); err != nil {
					t.Fatal(err)
				}
			}
			for _, p := range peers {
				if lane := p.value(t, "lane"); lane != c.lane {
					t.Errorf("messages travel by %s, not by %s", lane, c.lane)
				}
				text, err := strconv.Unquote(p.value(t, "explanation"))
				if err != nil {
					t.Fatal(err)
				}
				if missing, ok := saysAll(text, c.reason); !ok {
					t.Errorf("the endpoint does not say %q:\n%s", missing, text)
				}
				p.value(t, "done")
			}
			for _, p := range peers {
				p.in.Close()
				if err := p.cmd.Wait(); err != nil {
					t.Errorf("user: %v", err)
				}
			}
		})
	}
}

// TestAllowedUsers checks that a setting decides with which users a privileged process shares
// memory, as it could share that of any user.
func TestAllowedUsers(t *testing.T) {
	needtest.Goroutines(t)
	if os.Geteuid() != 0 {
		needtest.Right(t, "root, to become other users")
	}
	needCalls(t, "sysv", "cma")
	program := publicProgram(t)
	const other = 65534
	for _, c := range []struct {
		allow  string
		lane   string // lane of the privileged process
		reason []string
	}{
		{"all", "posix", nil},
		{"self,65533,65534", "posix", nil},
		{"self", "tcp", []string{"posix", "user 65534 is not in UCX_SHM_ALLOW=self", "sysv", "user 65534 is not in UCX_SHM_ALLOW=self",
			"cma", "user 65534 is not in UCX_SHM_ALLOW=self"}},
	} {
		for _, link := range []string{"y", "n"} {
			t.Run(c.allow+" "+link, func(t *testing.T) {
				if link == "y" && c.lane == "posix" {
					needtest.Capability(t, "CAP_SYS_PTRACE", "to open what another user's process has open")
				}
				peers := []*userProcess{
					startUser(t, program, 0, "UCX_SHM_ALLOW="+c.allow, "UCX_POSIX_USE_PROC_LINK="+link),
					startUser(t, program, other, "UCX_POSIX_USE_PROC_LINK="+link),
				}
				for i, p := range peers {
					if _, err := fmt.Fprintln(p.in, peers[1-i].value(t, "address")); err != nil {
						t.Fatal(err)
					}
				}
				for i, p := range peers {
					lane, want := p.value(t, "lane"), c.lane
					text, err := strconv.Unquote(p.value(t, "explanation"))
					if err != nil {
						t.Fatal(err)
					}
					if i == 1 {
						want = "tcp"
					} else if missing, ok := saysAll(text, c.reason); !ok {
						t.Errorf("the endpoint does not say %q:\n%s", missing, text)
					}
					if lane != want {
						t.Errorf("process %d sends by %s, not by %s:\n%s", i, lane, want, text)
					}
					p.value(t, "done")
				}
				for _, p := range peers {
					p.in.Close()
					if err := p.cmd.Wait(); err != nil {
						t.Errorf("user: %v", err)
					}
				}
			})
		}
	}
}

// publicProgram copies the test binary to a place where every user can run it.
func publicProgram(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "users_test_")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(dir, "peer")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if failed := to.Close(); err == nil {
		err = failed
	}
	if err == nil {
		err = os.Chmod(path, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// userProcess is a peer that runs as another user.
type userProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startUser(t *testing.T, program string, uid uint32, settings ...string) *userProcess {
	t.Helper()
	p := &userProcess{cmd: exec.Command(program, "-test.run", "^TestUsers$")}
	p.cmd.Dir = "/"
	p.cmd.Env = append(os.Environ(), userVar+"=1")
	p.cmd.Env = append(p.cmd.Env, settings...)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: unix.SIGKILL,
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		needtest.Right(t, fmt.Sprintf("the right to become user %d: %v", uid, err))
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
	})
	return p
}

// value waits for a line that begins with a name, and returns the rest.
func (p *userProcess) value(t *testing.T, name string) string {
	t.Helper()
	var seen []string
	for p.out.Scan() {
		if rest, ok := strings.CutPrefix(p.out.Text(), "peer "+name+" "); ok {
			return rest
		}
		seen = append(seen, p.out.Text())
	}
	t.Fatalf("a peer has ended before it told its %s:\n%s", name, strings.Join(seen, "\n"))
	return ""
}

// userPeer runs one of the two processes: it exchanges messages with the other and prints the
// transport used.
func userPeer(t *testing.T) {
	r := newRig(t, transport{name: "all", settings: []setting{{"TLS", "posix,sysv,cma,tcp"}, {"NET_DEVICES", "lo"}}})
	a := r.open()
	fmt.Printf("peer address %x\n", []byte(a.address()))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	ep, err := a.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range []int{8, 4096, 1 << 20} {
		src, got := ucttest.Pattern(size, uint64(i)), make([]byte, size)
		recv, err := a.TagRecv(ucp.Tag(i), ucp.FullMask, got, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.must(ep.TagSendSync(ucp.Tag(i), src, nil))
		r.must(recv, nil)
		ucttest.SameBytes(t, "message", got, src)
	}
	fmt.Printf("peer lane %s\npeer explanation %q\npeer done now\n", ep.Attr().Transports[0].Name, ep.Explain().String())
	// The other process may still need an answer.
	end := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(end)
	}()
	for {
		select {
		case <-end:
			return
		default:
			if r.progress() == 0 {
				r.sleep(1)
			}
		}
	}
}
