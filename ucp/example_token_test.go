package ucp_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/ucx-go/ucx/ucp"
)

// The worker serves only peers that have been given its address, and no other process that finds
// its port. The peer's program does nothing for that.
func ExampleWorkerParams_token() {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		log.Fatal(err)
	}
	if err := cfg.Modify("TLS", "tcp"); err != nil {
		log.Fatal(err)
	}
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer ctx.Close()
	server, err := ctx.NewWorker(ucp.WorkerParams{Token: ucp.TokenRequired})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	addr, err := server.Address(0) // as secret as a password
	if err != nil {
		log.Fatal(err)
	}

	client, err := ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ep, err := client.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	recv, err := server.TagRecv(1, ucp.FullMask, buf, nil)
	if err != nil {
		log.Fatal(err)
	}
	// The message is long, so the server has to answer. It opens the endpoint for the answer
	// because the client proves that it has the address.
	send, err := ep.TagSend(1, []byte(strings.Repeat("hello ", 100_000)), nil)
	if err != nil {
		log.Fatal(err)
	}
	for !recv.Done() { // both run in this goroutine
		client.Progress()
		server.Progress()
	}
	if err := send.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	info, err := recv.TagRecvInfo()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s… %d bytes, %d refused\n", buf[:5], info.Length, server.Stats().Refused)
	// Output:
	// hello… 600000 bytes, 0 refused
}
