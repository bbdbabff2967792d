package ucp_test

import (
	"context"
	"fmt"
	"log"

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

// A message goes to a receive whose tag equals the message's in the bits of the mask.
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

// A stream has no boundaries: the receiver reads as many bytes as it likes.
func ExampleEndpoint_StreamSend() {
	ctx, w, ep := openSelf(ucp.FeatureStream)
	defer ctx.Close()
	defer w.Close()

	for _, s := range []string{"hel", "lo, wor", "ld"} {
		if err := ep.StreamSendWait(context.Background(), []byte(s)); err != nil {
			log.Fatal(err)
		}
	}
	buf := make([]byte, 5)
	n, err := ep.StreamRecvFullWait(context.Background(), buf)
	if err != nil {
		log.Fatal(err)
	}
	rest := make([]byte, 64)
	m, err := ep.StreamRecvWait(context.Background(), rest)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s|%s\n", buf[:n], rest[:m])
	// Output: hello|, world
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

// Pieces of memory are sent as one message without being copied together first.
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

// The length of a message that was taken out is known before there is a buffer for it.
// The sender claims the length: if the sender is not trusted, the length is limited
// before memory is allocated for it.
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
	const most = 1 << 20
	if msg.Info().Length > most {
		msg.Discard()
		log.Fatal("more than this program has a use for")
	}
	buf := make([]byte, msg.Info().Length)
	if _, err := msg.RecvWait(context.Background(), buf); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(buf))
	// Output: of unknown length
}

// openMemory allocates memory and opens it at the other side. A real program sends the
// address and the packed key there by any means.
func openMemory(ctx *ucp.Context, ep *ucp.Endpoint, n int) (mem *ucp.Memory, addr uint64, key *ucp.Rkey) {
	mem, err := ctx.Alloc(n, ucp.ProtAll)
	if err != nil {
		log.Fatal(err)
	}
	packed, err := mem.PackRkey()
	if err != nil {
		log.Fatal(err)
	}
	if key, err = ep.UnpackRkey(packed); err != nil {
		log.Fatal(err)
	}
	return mem, mem.Attr().Address, key
}

// One side writes to memory of the other and reads it. When a flush has ended, the
// data has been written.
func ExampleEndpoint_Put() {
	ctx, w, ep := openSelf(ucp.FeatureRMA)
	defer ctx.Close()
	defer w.Close()
	mem, addr, key := openMemory(ctx, ep, 4096)
	defer mem.Close()
	defer key.Close()

	put, err := ep.Put([]byte("hello"), addr+64, key, nil) // goes on after the call, if put is not nil
	if err != nil {
		log.Fatal(err)
	}
	flush, err := ep.Flush(nil)
	if err != nil {
		log.Fatal(err)
	}
	for !put.Done() || !flush.Done() {
		w.Progress()
	}
	put.Free()
	flush.Free()
	buf := make([]byte, 5)
	if err := ep.GetWait(context.Background(), buf, addr+64, key); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf)
	// Output: hello
}

// A word of the peer's memory is a counter for all workers that have its key.
func ExampleFetchAddWait() {
	ctx, w, ep := openSelf(ucp.FeatureAMO64)
	defer ctx.Close()
	defer w.Close()
	mem, addr, key := openMemory(ctx, ep, 4096)
	defer mem.Close()
	defer key.Close()

	if _, err := ucp.PostAdd[uint64](ep, addr, key, 40, nil); err != nil { // no result needed
		log.Fatal(err)
	}
	ticket, err := ucp.FetchAddWait[uint64](context.Background(), ep, addr, key, 1)
	if err != nil {
		log.Fatal(err)
	}
	was, err := ucp.CompareSwapWait[uint64](context.Background(), ep, addr, key, 41, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ticket, was)
	// Output: 40 41
}

// An endpoint explains which transports it uses, which protocol it uses for how many
// bytes, and why.
func ExampleEndpoint_Explain() {
	ctx, w, ep := openSelf(ucp.FeatureTag)
	defer ctx.Close()
	defer w.Close()

	e := ep.Explain()
	for _, s := range e.Searches {
		if s.Chosen >= 0 {
			fmt.Printf("%s: %s\n", s.Title, s.Candidates[s.Chosen].Name)
		}
	}
	first := e.Protocols[0].Ranges[0]
	fmt.Printf("from %d bytes: %s\n", first.Min, first.Protocol)
	// Output:
	// active messages: self/memory
	// from 0 bytes: egr/short
}

// Shutdown closes an endpoint after the messages that were sent before have left.
func ExampleEndpoint_Shutdown() {
	ctx, w, ep := openSelf(ucp.FeatureTag)
	defer ctx.Close()
	defer w.Close()

	if err := ep.TagSendWait(context.Background(), 1, []byte("bye")); err != nil {
		log.Fatal(err)
	}
	if err := ep.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 8)
	info, err := w.TagRecvWait(context.Background(), 1, ucp.FullMask, buf)
	fmt.Printf("%s, %v\n", buf[:info.Length], err)
	// Output: bye, <nil>
}
