package ucpnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestHalfClose checks that after CloseWrite the peer reads everything and then EOF, and can still
// write.
func TestHalfClose(t *testing.T) {
	overAll(t, func(t *testing.T, a, b *Conn) {
		sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<14)
		go func() {
			a.Write(sent)
			a.CloseWrite()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write after CloseWrite: %v", err)
		}
		if _, err := b.Write([]byte("answer")); err != nil {
			t.Fatal(err)
		}
		b.Close()
		if got, err := io.ReadAll(a); string(got) != "answer" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

// TestCloseDelivers checks that data written before Close arrives.
func TestCloseDelivers(t *testing.T) {
	overAll(t, func(t *testing.T, a, b *Conn) {
		sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
		go func() {
			a.Write(sent)
			a.Close()
		}()
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		for err == nil { // until this side knows that the peer has closed
			_, err = b.Write(sent)
		}
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("writes to who has gone end with %v", err)
		}
	})
}

// TestCloseWait checks that the peer has received everything when CloseWait returns.
func TestCloseWait(t *testing.T) {
	overAll(t, func(t *testing.T, a, b *Conn) {
		const size = 100_000
		if _, err := a.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.CloseWait(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		if _, err := a.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write to a closed connection: %v", err)
		}
		ended := make(chan error)
		go func() { ended <- a.CloseWait(t.Context()) }()
		if got, err := io.ReadAll(b); len(got) != size || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		b.Close()
		if err := <-ended; err != nil {
			t.Errorf("the end: %v", err)
		}
	})
}

// TestCloseRead checks that CloseRead ends reads on this side and writes of the peer.
func TestCloseRead(t *testing.T) {
	overAll(t, func(t *testing.T, a, b *Conn) {
		if err := a.CloseRead(); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("Read = %d, %v", n, err)
		}
		var err error
		for big := make([]byte, 1<<20); err == nil; {
			_, err = b.Write(big)
		}
		if !errors.Is(err, syscall.EPIPE) {
			t.Errorf("writes to who does not read end with %v", err)
		}
	})
}

// TestSlowReader checks that a writer waits for a peer that does not read, that the connection
// stays alive, and that the other direction is not delayed.
func TestSlowReader(t *testing.T) {
	for _, size := range []int{1, 1000, 1 << 20} {
		overAll(t, func(t *testing.T, a, b *Conn) {
			p := make([]byte, size)
			total := 0
			a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			var err error
			for err == nil {
				var n int
				n, err = a.Write(p)
				total += n
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) || total == 0 || total > 1<<20 {
				t.Fatalf("wrote %d bytes until %v", total, err)
			}
			if _, err := b.Write([]byte("here")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(a, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			if n, err := io.CopyN(io.Discard, b, int64(total)); err != nil {
				t.Fatalf("%d of %d bytes, then %v", n, total, err)
			}
			a.SetWriteDeadline(time.Now().Add(patient))
			if _, err := a.Write([]byte("more")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAfterClose checks that every method of a closed connection returns net.ErrClosed.
func TestAfterClose(t *testing.T) {
	overAll(t, func(t *testing.T, a, _ *Conn) {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		_, read := a.Read(make([]byte, 1))
		_, write := a.Write([]byte("x"))
		_, to := a.WriteTo(io.Discard)
		for what, err := range map[string]error{
			"Read": read, "Write": write, "WriteTo": to, "Close": a.Close(), "CloseRead": a.CloseRead(),
			"CloseWrite": a.CloseWrite(), "SetDeadline": a.SetDeadline(time.Time{}),
		} {
			var op *net.OpError
			if !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
	})
}

// TestCopy copies bytes in both directions with io.Copy.
func TestCopy(t *testing.T) {
	overAll(t, func(t *testing.T, a, b *Conn) {
		sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
		go func() { // an echo
			io.Copy(b, b)
			b.CloseWrite()
		}()
		go func() {
			a.ReadFrom(bytes.NewReader(sent))
			a.CloseWrite()
		}()
		var got bytes.Buffer
		if n, err := io.Copy(&got, a); err != nil || !bytes.Equal(got.Bytes(), sent) {
			t.Errorf("%d bytes of %d came back, %v", n, len(sent), err)
		}
	})
}

// TestGone: a peer ends without closing its connection. What it has sent is read, and then reads
// return a connection reset.
func TestGone(t *testing.T) {
	for _, way := range ways {
		if way.workers < 2 {
			continue
		}
		t.Run(way.name, func(t *testing.T) {
			a, b := way.ends(t)
			if _, err := a.Write([]byte("last")); err != nil {
				t.Fatal(err)
			}
			a.ep.Close() // like the end of the process
			got, err := io.ReadAll(b)
			if string(got) != "last" || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read %q, then %v", got, err)
			}
			if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a write to who has gone: %v", err)
			}
		})
	}
}
