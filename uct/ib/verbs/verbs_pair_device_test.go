//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// The two machines of scripts/vm pair, with VM_HOST 1 and 2, run these tests at the same time and
// synchronize over TCP.

// hostAddr is where the first machine listens.
const hostAddr = "10.9.0.1:"

// wire is a connection to the test on the other machine.
type wire struct {
	t    *testing.T
	conn net.Conn
	enc  *gob.Encoder
	dec  *gob.Decoder
}

// first reports whether this is the first of two machines; on other machines it skips the test.
func first(t *testing.T) bool {
	t.Helper()
	if os.Getenv("VM_NET") != "nic" {
		t.Skip("not one of two machines; make test-rxe has them")
	}
	return os.Getenv("VM_HOST") == "1"
}

// dial connects to the other machine at a port. The other machine may still be starting.
func dial(t *testing.T, listen bool, port string) *wire {
	t.Helper()
	var conn net.Conn
	var err error
	end := time.Now().Add(2 * eventTimeout)
	if listen {
		l := must(net.Listen("tcp", hostAddr+port))(t)
		check(t, l.(*net.TCPListener).SetDeadline(end))
		conn, err = l.Accept()
		l.Close()
	} else {
		for {
			d := net.Dialer{Deadline: end}
			if conn, err = d.Dial("tcp", hostAddr+port); err == nil || time.Now().After(end) {
				break
			}
			runtime.Gosched()
		}
	}
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	check(t, conn.SetDeadline(time.Now().Add(10*eventTimeout)))
	return &wire{t, conn, gob.NewEncoder(conn), gob.NewDecoder(conn)}
}

// far is what a machine needs to know of the other's end.
type far struct {
	QPN  verbs.QPN
	GID  verbs.GID
	Addr uint64
	RKey verbs.RKey
}

// swap sends a value to the other test and returns the value that it sends.
func swap[T any](w *wire, mine T) (theirs T) {
	w.t.Helper()
	check(w.t, w.enc.Encode(mine))
	check(w.t, w.dec.Decode(&theirs))
	return theirs
}

// meet waits until both tests have reached the same place, which a name identifies.
func (w *wire) meet(where string) {
	w.t.Helper()
	if theirs := swap(w, where); theirs != where {
		w.t.Fatalf("here is %q, there is %q", where, theirs)
	}
}

// join connects s with the end on the other machine.
func (w *wire) join(s *side, change ...func(*verbs.QPAttr)) far {
	w.t.Helper()
	theirs := swap(w, far{s.qp.QPN(), s.r.gid, s.mr.Addr(), s.mr.RKey()})
	s.up(w.t, nil, append(change, func(a *verbs.QPAttr) { a.DestQPN, a.AH.DGID = theirs.QPN, theirs.GID })...)
	w.meet("connected")
	return theirs
}

// TestPairOpcodes does every operation between two machines, in both directions.
func TestPairOpcodes(t *testing.T) {
	one := first(t)
	r := deviceRig(t)
	w := dial(t, one, "7001")
	const in, word = 32 << 10, 60000 // offsets for incoming data
	mtu := r.mtu.Bytes()
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		s := r.newSide(t, typ)
		peer := w.join(s)
		var ah *verbs.AH
		sizes := []int{0, 1, 8, 100, mtu - 1, mtu}
		ops := []verbs.WROpcode{verbs.WRSend, verbs.WRSendWithImm}
		grh := 0
		switch typ {
		case verbs.UD:
			path := r.path()
			path.DGID = peer.GID
			ah = must(s.pd.CreateAH(&path))(t)
			grh = verbs.GRHLength
		case verbs.RC:
			ops = append(ops, verbs.WRRDMARead, verbs.WRAtomicCmpAndSwp, verbs.WRAtomicFetchAndAdd)
			fallthrough
		case verbs.UC:
			ops = append(ops, verbs.WRRDMAWrite, verbs.WRRDMAWriteWithImm)
			sizes = append(sizes, mtu+1, 3*mtu+5, 20000)
		}
		for turn := range 2 {
			active := one == (turn == 0)
			for _, op := range ops {
				for _, n := range sizes {
					atomic := op == verbs.WRAtomicCmpAndSwp || op == verbs.WRAtomicFetchAndAdd
					if atomic && n != 8 || typ == verbs.UC && op == verbs.WRRDMAWrite {
						continue
					}
					name := fmt.Sprintf("%v, turn %d: %v of %d bytes", typ, turn, op, n)
					seed := byte(n + 7*int(op) + turn)
					if !active {
						clear(s.buf[in : in+n+grh+1])
						fill(s.buf[:n], seed)
						binary.NativeEndian.PutUint64(s.buf[word:], 41)
						s.recv(t, verbs.RecvWR{ID: 3, SGList: s.at(in, n+grh)})
						w.meet(name)
						w.meet(name + " done")
						want := make([]byte, n+1)
						fill(want[:n], seed)
						switch op {
						case verbs.WRSend, verbs.WRSendWithImm, verbs.WRRDMAWriteWithImm:
							kind, imm := verbs.WCRecv, uint32(0)
							if op == verbs.WRRDMAWriteWithImm {
								kind = verbs.WCRecvRDMAWithImm
							}
							if op != verbs.WRSend {
								imm = uint32(n) + 1e6
							}
							if wc := s.done(t, 3, kind); int(wc.ByteLen) != n+grh || wc.Imm != imm {
								t.Errorf("%s: %+v", name, wc)
							}
						default: // the receive is still posted
							w.meet("one more")
							s.done(t, 3, verbs.WCRecv)
						}
						switch {
						case atomic:
							if v := binary.NativeEndian.Uint64(s.buf[word:]); v != 42 {
								t.Errorf("%s: the word is %d", name, v)
							}
						case op != verbs.WRRDMARead && !bytes.Equal(s.buf[in+grh:in+grh+n+1], want):
							t.Errorf("%s: wrong bytes", name)
						}
						w.meet("checked")
						continue
					}
					wr := verbs.SendWR{ID: 5, Opcode: op, Flags: verbs.SendSignaled, SGList: s.at(0, n), Imm: uint32(n) + 1e6,
						RemoteAddr: peer.Addr + in, RKey: peer.RKey, CompareAdd: 41, Swap: 42, AH: ah, RemoteQPN: peer.QPN, RemoteQKey: qkey}
					done := map[verbs.WROpcode]verbs.WCOpcode{verbs.WRRDMARead: verbs.WCRDMARead, verbs.WRAtomicCmpAndSwp: verbs.WCCompSwap,
						verbs.WRAtomicFetchAndAdd: verbs.WCFetchAdd, verbs.WRRDMAWrite: verbs.WCRDMAWrite, verbs.WRRDMAWriteWithImm: verbs.WCRDMAWrite}[op]
					switch {
					case op == verbs.WRRDMARead:
						wr.RemoteAddr = peer.Addr
						clear(s.buf[:n])
					case atomic:
						wr.RemoteAddr = peer.Addr + word
						if op == verbs.WRAtomicFetchAndAdd {
							wr.CompareAdd = 1
						}
					default:
						fill(s.buf[:n], seed)
					}
					if n <= 100 && (op == verbs.WRSend || op == verbs.WRRDMAWrite) {
						wr.Flags |= verbs.SendInline
						wr.Inline = [][]byte{s.buf[:n]}
					}
					w.meet(name)
					s.send(t, wr)
					s.done(t, 5, done)
					w.meet(name + " done")
					if op == verbs.WRRDMAWrite || op == verbs.WRRDMARead || atomic {
						want := make([]byte, n)
						if fill(want, seed); op == verbs.WRRDMARead && !bytes.Equal(s.buf[:n], want) {
							t.Errorf("%s: wrong bytes", name)
						}
						if atomic && binary.NativeEndian.Uint64(s.buf) != 41 {
							t.Errorf("%s: it found %d", name, binary.NativeEndian.Uint64(s.buf))
						}
						s.send(t, verbs.SendWR{ID: 6, Opcode: verbs.WRSend, Flags: verbs.SendSignaled})
						s.done(t, 6, verbs.WCSend)
						w.meet("one more")
					}
					w.meet("checked")
				}
			}
		}
		w.meet(fmt.Sprint(typ, " ends"))
		check(t, s.ctx.Close())
	}
}

// TestPairStream has both machines send to each other at once, waiting for events, into shared
// receive queues.
func TestPairStream(t *testing.T) {
	one := first(t)
	r := deviceRig(t)
	w := dial(t, one, "7002")
	s := r.newSide(t, verbs.RC)
	srq := must(s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 64, MaxSGE: 1}))(t)
	check(t, s.qp.Close())
	s.newQP(t, verbs.RC, func(a *verbs.QPInitAttr) { a.SRQ = srq })
	const size, depth = 1000, 16
	seed := byte(3)
	if one {
		seed = 5
	}
	post := func(id uint64) {
		t.Helper()
		if _, err := srq.PostRecv([]verbs.RecvWR{{ID: id, SGList: s.at(size*int(id), size)}}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range uint64(depth) {
		post(id)
	}
	w.join(s, func(a *verbs.QPAttr) { a.RNRRetry = 7 })
	total := r.often(0, 300, 10000)
	const from = 32 << 10
	send := func(k int) {
		b := s.buf[from+size*(k%depth):][:size]
		fill(b, seed+byte(k))
		s.send(t, verbs.SendWR{ID: 1000, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: s.at(from+size*(k%depth), size)})
	}
	next, sent, got := 0, 0, 0
	for ; next < depth; next++ {
		send(next)
	}
	want, wc, ctx := make([]byte, size), make([]verbs.WC, 8), timeout(t)
	for sent < total || got < total {
		n, err := s.cq.Wait(ctx, wc)
		check(t, err)
		for _, c := range wc[:n] {
			check(t, c.Err())
			if c.ID == 1000 {
				if sent++; next < total {
					send(next)
					next++
				}
				continue
			}
			fill(want, 8-seed+byte(got))
			if at := size * int(c.ID); c.ID != uint64(got%depth) || int(c.ByteLen) != size || !bytes.Equal(s.buf[at:at+size], want) {
				t.Fatalf("message %d: %+v, or wrong bytes", got, c)
			}
			got++
			post(c.ID)
		}
	}
	w.meet("the end")
}

// TestPairKilled kills the process on the other machine to which the first one sends: the sender's
// requests must end, and both machines must still work.
func TestPairKilled(t *testing.T) {
	const child = "VERBS_KILLED_CHILD"
	one := first(t)
	r := deviceRig(t)
	if os.Getenv(child) != "" { // receives until it is killed
		w := dial(t, false, "7004")
		s := r.newSide(t, verbs.RC)
		w.join(s)
		for {
			s.recv(t, verbs.RecvWR{SGList: s.at(0, 1000)})
			must(s.cq.Wait(timeout(t), make([]verbs.WC, 1)))(t)
		}
	}
	w := dial(t, one, "7003")
	if !one {
		before := resources(t)
		cmd := exec.Command(must(os.Executable())(t), "-test.run=^TestPairKilled$")
		cmd.Env = append(os.Environ(), child+"=1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		check(t, cmd.Start())
		w.meet("messages have arrived")
		check(t, cmd.Process.Kill())
		cmd.Wait()
		for end := time.Now().Add(eventTimeout); resources(t) != before; {
			if time.Now().After(end) {
				t.Fatalf("resources before\n%sand after\n%s\n%s", before, resources(t), out.String())
			}
		}
		w.meet("it is dead")
	} else {
		s := r.newSide(t, verbs.RC)
		peer := dial(t, true, "7004").join(s, impatient(4), func(a *verbs.QPAttr) { a.RNRRetry, a.Timeout = 7, 14 })
		send := verbs.SendWR{ID: 1, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: s.at(0, 1000)}
		write := verbs.SendWR{ID: 2, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: s.at(0, 20000), RemoteAddr: peer.Addr + 1000, RKey: peer.RKey}
		for range 20 {
			s.send(t, send, write)
			s.done(t, 1, verbs.WCSend)
			s.done(t, 2, verbs.WCRDMAWrite)
		}
		read := verbs.SendWR{ID: 3, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGList: s.at(20000, 20000), RemoteAddr: peer.Addr + 1000, RKey: peer.RKey}
		s.send(t, read)
		s.done(t, 3, verbs.WCRDMARead)
		if !bytes.Equal(s.buf[20000:40000], s.buf[:20000]) {
			t.Error("wrong bytes")
		}
		w.meet("messages have arrived")
		var failed verbs.WC
		for n := 0; failed.Status == verbs.WCSuccess; n++ { // it may live a little longer
			s.send(t, write)
			failed = s.poll(t, 1)[0]
		}
		if failed.Status != verbs.WCRetryExcErr {
			t.Errorf("%+v (%v)", failed, failed.Status)
		}
		wantErr(t, failed.Err(), ucs.ErrEndpointTimeout, "its error")
		if st := s.state(t); st != verbs.QPErr {
			t.Errorf("in %v", st)
		}
		s.send(t, send, write, read)
		for i, wc := range s.poll(t, 3) {
			if wc.Status != verbs.WCWRFlushErr || wc.ID != uint64(i+1) {
				t.Errorf("%+v (%v)", wc, wc.Status)
			}
		}
		check(t, s.ctx.Close())
		w.meet("it is dead")
	}
	// The remaining processes can communicate.
	s := r.newSide(t, verbs.RC)
	w.join(s)
	s.recv(t, verbs.RecvWR{ID: 8, SGList: s.at(5000, 3000)})
	w.meet("ready")
	fill(s.buf[:3000], 1)
	s.send(t, verbs.SendWR{ID: 9, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: s.at(0, 3000)})
	for _, wc := range s.poll(t, 2) {
		check(t, wc.Err())
	}
	if !bytes.Equal(s.buf[5000:8000], s.buf[:3000]) {
		t.Error("wrong bytes after all")
	}
	w.meet("the end")
}
