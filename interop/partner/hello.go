package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/ucx-go/ucx/ucp"
)

// helloTag is the tag of ucp_hello_world.
const helloTag ucp.Tag = 0x1337a880

const maxAddress = 1 << 16

// hello plays one side of ucp_hello_world. The server sends its address over a socket, the client
// in a message, to which the server replies with a text of size bytes.
func (p *partner) hello(serves bool, addr string, size int, dies bool) error {
	conn, err := socket(serves, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	own, err := p.worker.Address(0)
	if err != nil {
		return err
	}
	if serves {
		err = p.helloServer(conn, own, size, dies)
	} else {
		err = p.helloClient(conn, own, size, dies)
	}
	if err != nil {
		return err
	}
	if dies {
		return errors.Join(p.lost(), p.ep.Close())
	}
	return errors.Join(p.ep.Shutdown(p.ctx), p.helloEnd(conn))
}

// socket returns a TCP connection of the client or the server.
func socket(serves bool, addr string) (net.Conn, error) {
	if !serves {
		return net.Dial("tcp", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	listening(l.Addr())
	return l.Accept()
}

// sized returns b, preceded by its length in native byte order.
func sized(b []byte) []byte {
	return append(binary.NativeEndian.AppendUint64(nil, uint64(len(b))), b...)
}

// connect creates the endpoint. If the other side is going to die, the endpoint has error mode
// peer, as in the C program.
func (p *partner) connect(address []byte, dies bool) (err error) {
	params := ucp.EndpointParams{Address: address}
	if dies {
		params.ErrMode, params.OnError = ucp.ErrModePeer, p.onError
	}
	p.ep, err = p.worker.NewEndpoint(params)
	return err
}

func (p *partner) helloClient(conn net.Conn, own []byte, size int, dies bool) error {
	length := make([]byte, 8)
	if _, err := io.ReadFull(conn, length); err != nil {
		return err
	}
	n := binary.NativeEndian.Uint64(length)
	if n > maxAddress {
		return fmt.Errorf("an address of %d bytes", n)
	}
	address := make([]byte, n)
	if _, err := io.ReadFull(conn, address); err != nil {
		return err
	}
	if err := p.connect(address, dies); err != nil {
		return err
	}
	if err := p.ep.TagSendWait(p.ctx, helloTag, sized(own)); err != nil || dies {
		return err
	}
	want := sized(text(size))
	buf := make([]byte, len(want)+100)
	info, err := p.worker.TagRecvWait(p.ctx, helloTag, ucp.FullMask, buf)
	if err == nil && !bytes.Equal(buf[:info.Length], want) {
		err = fmt.Errorf("received %d bytes, want %d, or others", info.Length, len(want))
	}
	return err
}

func (p *partner) helloServer(conn net.Conn, own []byte, size int, dies bool) error {
	if _, err := conn.Write(sized(own)); err != nil {
		return err
	}
	buf := make([]byte, maxAddress)
	info, err := p.worker.TagRecvWait(p.ctx, helloTag, ucp.FullMask, buf)
	if err != nil {
		return err
	}
	if info.Length < 8 {
		return fmt.Errorf("an address in %d bytes", info.Length)
	}
	if err := p.connect(buf[8:info.Length], dies); err != nil {
		return err
	}
	err = p.ep.TagSendWait(p.ctx, helloTag, sized(text(size)))
	if dies {
		return nil // the other side may have died before
	}
	return err
}

// helloEnd ends the conversation: each side waits for the other's four bytes.
func (p *partner) helloEnd(conn net.Conn) error {
	done := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, 4))
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 4))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return err
		default:
			p.worker.Progress()
		}
	}
}
