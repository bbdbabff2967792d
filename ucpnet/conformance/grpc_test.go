//go:build linux

package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ucx-go/ucx/ucpnet"
)

// echo is a gRPC service defined by hand, so that no code must be generated: a unary call, and a
// bidirectional stream.
var echo = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Once", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		m := new(wrapperspb.BytesValue)
		return m, decode(m)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Many", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		for {
			m := new(wrapperspb.BytesValue)
			switch err := s.RecvMsg(m); {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			}
			if err := s.SendMsg(m); err != nil {
				return err
			}
		}
	}}},
}

func TestGRPC(t *testing.T) {
	for _, way := range ways {
		if way.pipe {
			continue
		}
		t.Run(way.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			config, dialer := ucpnet.Config{Worker: worker(t, way.tls)}, ucpnet.Config{Worker: worker(t, way.tls)}
			l, err := config.Listen(ctx, "ucp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer()
			s.RegisterService(&echo, nil)
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			defer func() {
				s.Stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			}()
			c, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
					return dialer.DialContext(ctx, "ucp", address)
				}))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()

			for _, size := range []int{0, 10, 1 << 20} {
				sent, got := wrapperspb.Bytes(make([]byte, size)), new(wrapperspb.BytesValue)
				if err := c.Invoke(ctx, "/test.Echo/Once", sent, got); err != nil || len(got.Value) != size {
					t.Fatalf("%d bytes of %d, %v", len(got.Value), size, err)
				}
			}
			stream(ctx, t, c)
		})
	}
}

// stream sends without waiting for replies, closes its sending side, and cancels another stream.
func stream(ctx context.Context, t *testing.T, c *grpc.ClientConn) {
	const messages, size = 200, 10000
	many, err := c.NewStream(ctx, &echo.Streams[0], "/test.Echo/Many")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for range messages {
			if err := many.SendMsg(wrapperspb.Bytes(make([]byte, size))); err != nil {
				sent <- err
				return
			}
		}
		sent <- many.CloseSend()
	}()
	n := 0
	for {
		m := new(wrapperspb.BytesValue)
		if err := many.RecvMsg(m); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		n += len(m.Value)
	}
	if err := <-sent; err != nil || n != messages*size {
		t.Errorf("%d bytes of %d, %v", n, messages*size, err)
	}
	once, giveUp := context.WithCancel(ctx)
	if many, err = c.NewStream(once, &echo.Streams[0], "/test.Echo/Many"); err != nil {
		t.Fatal(err)
	}
	giveUp()
	if err := many.RecvMsg(new(wrapperspb.BytesValue)); status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
		t.Errorf("a stream that was given up ends with %v", err)
	}
}
