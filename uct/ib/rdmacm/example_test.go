//go:build linux

package rdmacm_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm/rdmacmtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// A server accepts a connection, and both sides exchange private data in the handshake. On real
// devices the Config is nil, and the device comes from Contexts.Open.
func Example() {
	kernel := rdmacmtest.New()
	device, err := verbs.NewContext(verbstest.New().Open(), 0)
	fail(err)
	defer device.Close()
	config := &rdmacm.Config{NewChannel: func() (*rdmacm.EventChannel, error) {
		f, err := kernel.Open()
		fail(err)
		return rdmacm.NewChannel(f)
	}}
	newQP := func(rdmacm.Addr) *verbs.QP {
		pd, err := device.AllocPD()
		fail(err)
		cq, err := device.CreateCQ(16, nil, 0)
		fail(err)
		qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
		fail(err)
		return qp
	}
	ctx := context.Background()

	l, err := rdmacm.Listen(netip.MustParseAddrPort("127.0.0.1:0"), config)
	fail(err)
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.GetRequest(ctx)
		fail(err)
		defer conn.Close()
		fmt.Printf("the client says %s\n", bytes.TrimRight(conn.Peer().PrivateData, "\x00"))
		param := rdmacm.DefaultConnParam()
		param.PrivateData = []byte("welcome")
		fail(conn.Accept(ctx, newQP(conn.Addr()), &param))
		fail(conn.Wait(ctx))
	}()

	conn, err := rdmacm.Resolve(ctx, l.Addr(), config)
	fail(err)
	defer conn.Close()
	param := rdmacm.DefaultConnParam()
	param.PrivateData = []byte("hello")
	fail(conn.Connect(ctx, newQP(conn.Addr()), &param))
	fmt.Printf("the server says %s\n", bytes.TrimRight(conn.Peer().PrivateData, "\x00"))
	fail(conn.Disconnect(ctx))
	<-served
	// Output:
	// the client says hello
	// the server says welcome
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
