package ucp_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucp"
)

// openSelf makes a worker that reaches itself. Real programs leave the choice of
// transports to the settings and exchange the addresses of their workers.
func openSelf(features ucp.Features) (*ucp.Context, *ucp.Worker, *ucp.Endpoint) {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		log.Fatal(err)
	}
	if err := cfg.Modify("TLS", "self"); err != nil {
		log.Fatal(err)
	}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: features}, cfg)
	if err != nil {
		log.Fatal(err)
	}
	w, err := ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		log.Fatal(err)
	}
	addr, err := w.Address(0)
	if err != nil {
		log.Fatal(err)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		log.Fatal(err)
	}
	return ctx, w, ep
}

// A message goes to the receive whose tag and mask it agrees with.
func ExampleEndpoint_TagSend() {
	ctx, w, ep := openSelf(ucp.FeatureTag)
	defer ctx.Close()
	defer w.Close()

	send, err := ep.TagSend(0x1001, []byte("hello"), nil)
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	info, err := w.TagRecvWait(context.Background(), 0x1000, 0xF000, buf)
	if err != nil {
		log.Fatal(err)
	}
	if err := send.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("tag %#x: %s\n", info.SenderTag, buf[:info.Length])
	// Output: tag 0x1001: hello
}

// A receive that is not matched in its call finishes later; its callback runs
// inside Progress, or here inside the send.
func ExampleWorker_TagRecv() {
	ctx, w, ep := openSelf(ucp.FeatureTag)
	defer ctx.Close()
	defer w.Close()

	buf := make([]byte, 64)
	recv, err := w.TagRecv(7, ucp.FullMask, buf, &ucp.RequestParams{
		OnTagRecv: func(_ *ucp.Request, err error, info ucp.TagRecvInfo, userData any) {
			fmt.Println(userData, "received", info.Length, "bytes,", err)
		},
		UserData: "server",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := ep.TagSendWait(context.Background(), 7, []byte("request")); err != nil {
		log.Fatal(err)
	}
	for !recv.Done() {
		w.Progress()
	}
	fmt.Println(string(buf[:7]))
	recv.Free()
	// Output:
	// server received 7 bytes, <nil>
	// request
}

// Pieces of memory travel as one message without being put together first.
func ExampleIOV() {
	ctx, w, ep := openSelf(ucp.FeatureTag)
	defer ctx.Close()
	defer w.Close()

	parts := &ucp.RequestParams{Buffer: ucp.IOV([]byte("scatter"), nil, []byte("-gather"))}
	send, err := ep.TagSend(1, nil, parts)
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	info, err := w.TagRecvWait(context.Background(), 1, ucp.FullMask, buf)
	if err != nil {
		log.Fatal(err)
	}
	if err := send.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(buf[:info.Length]))
	// Output: scatter-gather
}

// A message that was taken out tells its length before there is a buffer for it.
func ExampleWorker_TagTake() {
	ctx, w, ep := openSelf(ucp.FeatureTag)
	defer ctx.Close()
	defer w.Close()

	if err := ep.TagSendWait(context.Background(), 9, []byte("of unknown length")); err != nil {
		log.Fatal(err)
	}
	msg, ok := w.TagTake(9, ucp.FullMask)
	if !ok {
		log.Fatal("no message")
	}
	buf := make([]byte, msg.Info().Length)
	recv, err := msg.Recv(buf, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := recv.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(buf))
	// Output: of unknown length
}

// A program with a poll loop of its own sleeps on the worker's descriptor: it
// progresses until nothing happens, arms, and polls only if that succeeded.
func ExampleWorker_Arm() {
	ctx, w, _ := openSelf(ucp.FeatureTag | ucp.FeatureWakeup)
	defer ctx.Close()
	defer w.Close()

	fd, err := w.EventFD()
	if err != nil {
		log.Fatal(err)
	}
	for {
		for w.Progress() > 0 {
		}
		if w.Arm() == nil {
			break
		}
	}
	go w.Signal() // any goroutine may wake the loop
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set, -1)
		if err == unix.EINTR {
			continue
		}
		fmt.Println("ready:", n, err)
		break
	}
	// Output: ready: 1 <nil>
}

// One side registers memory and gives away its address and key; the other writes
// to it, reads it and counts in it. A flush says that everything has taken effect.
func ExampleEndpoint_Put() {
	ctx, w, ep := openSelf(ucp.FeatureRMA | ucp.FeatureAMO64)
	defer ctx.Close()
	defer w.Close()

	mem, err := ctx.MemMap(ucp.MemMapParams{Length: 4096, Flags: ucp.MemMapAllocate})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	packed, err := mem.PackRkey()
	if err != nil {
		log.Fatal(err)
	}
	addr := mem.Attr().Address // packed and addr go to the peer, by whatever means

	key, err := ep.UnpackRkey(packed)
	if err != nil {
		log.Fatal(err)
	}
	defer key.Close()
	must := func(req *ucp.Request, err error) {
		if err == nil {
			err = req.Wait(context.Background())
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	must(ep.Put([]byte("hello"), addr+64, key, nil))
	must(ep.Flush(nil))
	buf := make([]byte, 5)
	must(ep.Get(buf, addr+64, key, nil))

	old := make([]byte, 8)
	one := binary.NativeEndian.AppendUint64(nil, 1)
	for range 3 {
		must(ep.Atomic(ucp.AtomicAdd, one, addr, key, &ucp.RequestParams{ReplyBuffer: old}))
	}
	fmt.Printf("%s, %d\n", buf, binary.NativeEndian.Uint64(old))
	// Output: hello, 2
}
