package verbs_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestPingPong plays with the examples of libibverbs, ibv_rc_pingpong and
// ibv_ud_pingpong, in both roles, with and without events on their side.
func TestPingPong(t *testing.T) {
	deviceRig(t)
	for _, c := range []struct {
		tool string
		typ  verbs.QPType
		size int
	}{{"ibv_rc_pingpong", verbs.RC, 9000}, {"ibv_uc_pingpong", verbs.UC, 9000}, {"ibv_ud_pingpong", verbs.UD, 1000}} {
		for _, events := range []bool{false, true} {
			for _, serve := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/events=%v/server=%v", c.typ, events, serve), func(t *testing.T) {
					if _, err := exec.LookPath(c.tool); err != nil {
						t.Skipf("%v (apt-get install ibverbs-utils)", err)
					}
					pingPong(t, deviceRig(t), c.tool, c.typ, c.size, events, serve)
				})
			}
		}
	}
}

// endpoint is what two ends of a pingpong tell each other: pp_connect_ctx of
// libibverbs/examples/rc_pingpong.c.
type endpoint struct {
	qpn verbs.QPN
	psn verbs.PSN
	gid verbs.GID
}

const endpointLen = len("0000:000000:000000:00000000000000000000000000000000") + 1

func (e endpoint) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%04x:%06x:%06x:%s\x00", 0, uint32(e.qpn), uint32(e.psn), hex.EncodeToString(e.gid[:]))
	return err
}

func readEndpoint(r io.Reader) (e endpoint, err error) {
	b := make([]byte, endpointLen)
	if _, err = io.ReadFull(r, b); err != nil {
		return e, err
	}
	f := bytes.Split(bytes.TrimRight(b, "\x00"), []byte(":"))
	if len(f) != 4 || len(f[3]) != 32 {
		return e, fmt.Errorf("an endpoint %q", b)
	}
	qpn, err1 := strconv.ParseUint(string(f[1]), 16, 24)
	psn, err2 := strconv.ParseUint(string(f[2]), 16, 24)
	_, err = hex.Decode(e.gid[:], f[3])
	if err1 != nil || err2 != nil || err != nil {
		return e, fmt.Errorf("an endpoint %q", b)
	}
	e.qpn, e.psn = verbs.QPN(qpn), verbs.PSN(psn)
	return e, nil
}

func pingPong(t *testing.T, r *rig, tool string, typ verbs.QPType, size int, events, serve bool) {
	const rounds = 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	addr := l.Addr().(*net.TCPAddr)
	if !serve {
		l.Close() // theirs now
	}
	args := []string{"-d", device(t).Name, "-g", fmt.Sprint(r.local.Index), "-n", fmt.Sprint(rounds), "-s", fmt.Sprint(size), "-p", fmt.Sprint(addr.Port)}
	if events {
		args = append(args, "-e")
	}
	if serve {
		args = append(args, "127.0.0.1")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	check(t, cmd.Start())
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s %v\n%s", tool, args, out.String())
		}
	}()
	var conn net.Conn
	if serve {
		l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
		conn, err = l.Accept()
		l.Close()
	} else {
		for end := time.Now().Add(patience); ; {
			if conn, err = net.Dial("tcp", addr.String()); err == nil || time.Now().After(end) {
				break
			}
		}
	}
	check(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))

	s := r.newSide(t, typ)
	own := endpoint{s.qp.QPN(), 0xabcdef, r.gid}
	var peer endpoint
	s.toInit(t)
	const grh = verbs.GRHLength
	space := s.at(0, size+grh)
	for i := range 8 {
		s.recv(t, verbs.RecvWR{ID: uint64(i), SGList: space})
	}
	connect := func() {
		s.toRTS(t, nil, func(a *verbs.QPAttr) {
			a.DestQPN, a.RQPSN, a.SQPSN, a.PathMTU = peer.qpn, peer.psn, own.psn, verbs.MTU1024
			a.AH.DGID = peer.gid
		})
	}
	if serve {
		peer = must(readEndpoint(conn))(t)
		connect()
		check(t, own.write(conn))
		_, err = io.ReadFull(conn, make([]byte, len("done")+1))
	} else {
		check(t, own.write(conn))
		peer = must(readEndpoint(conn))(t)
		connect()
		_, err = conn.Write([]byte("done\x00"))
	}
	check(t, err)

	wr := verbs.SendWR{ID: 100, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: s.at(bufSize/2, size), RemoteQPN: peer.qpn, RemoteQKey: qkey}
	if typ == verbs.UD {
		path := r.path()
		path.DGID = peer.gid
		wr.AH = must(s.pd.CreateAH(&path))(t)
	}
	if !serve {
		s.send(t, wr)
	}
	wc := make([]verbs.WC, 4)
	for sent, received := 0, 0; sent < rounds || received < rounds; {
		n, err := s.cq.Wait(ctx, wc)
		check(t, err)
		for _, w := range wc[:n] {
			check(t, w.Err())
			if w.ID == 100 {
				sent++
				continue
			}
			received++
			if want := size; int(w.ByteLen) != want && (typ != verbs.UD || int(w.ByteLen) != want+grh) {
				t.Fatalf("%d bytes, want %d", w.ByteLen, want)
			}
			s.recv(t, verbs.RecvWR{ID: w.ID, SGList: space})
			if serve || received < rounds {
				s.send(t, wr)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v", tool, err)
	}
}
