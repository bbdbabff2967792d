// Command first sends a message from a worker to itself. It is the shortest complete program.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	worker, err := c.NewWorker(ucp.WorkerParams{})
	if err != nil {
		return err
	}
	defer worker.Close()
	address, err := worker.Address(0) // of this worker; a peer in another process needs just these bytes
	if err != nil {
		return err
	}
	ep, err := worker.NewEndpoint(ucp.EndpointParams{Address: address})
	if err != nil {
		return err
	}
	if err := ep.TagSendWait(ctx, 42, []byte("hello")); err != nil {
		return err
	}
	buf := make([]byte, 64)
	info, err := worker.TagRecvWait(ctx, 42, ucp.FullMask, buf)
	if err != nil {
		return err
	}
	fmt.Printf("%s, over %s\n", buf[:info.Length], ep.Attr().Transports[0].Name)
	return nil
}
