package ucp_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// The handlers of a server are goroutines that wait on one worker, and the clients share another
// worker. No other goroutine progresses these workers: one of the waiting calls does it for all.
// The upper half of a tag says whether it is a request or an answer, the lower half says whose.
func Example_shared() {
	const requests, answers, who = 1 << 32, 2 << 32, 1<<32 - 1
	open := func() (*ucp.Context, *ucp.Worker) {
		c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, nil)
		if err != nil {
			panic(err)
		}
		w, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
		if err != nil {
			panic(err)
		}
		return c, w
	}
	connect := func(from, to *ucp.Worker) *ucp.Endpoint {
		addr, err := to.Address(0)
		if err != nil {
			panic(err)
		}
		ep, err := from.NewEndpoint(ucp.EndpointParams{Address: addr})
		if err != nil {
			panic(err)
		}
		return ep
	}
	serverContext, server := open()
	clientContext, client := open()
	toClient, toServer := connect(server, client), connect(client, server)

	ctx, stop := context.WithCancel(context.Background())
	var handlers, clients sync.WaitGroup
	for range 4 {
		handlers.Add(1)
		go func() {
			defer handlers.Done()
			buf := make([]byte, 100)
			for {
				info, err := server.TagRecvWait(ctx, requests, ^ucp.Tag(who), buf)
				if err != nil {
					return // stopped
				}
				answer := bytes.ToUpper(buf[:info.Length])
				if err := toClient.TagSendWait(ctx, answers|info.SenderTag&who, answer); err != nil {
					panic(err)
				}
			}
		}()
	}

	words := []string{"any", "number", "of", "goroutines", "share", "a", "worker"}
	got := make([]string, len(words))
	for i, word := range words {
		clients.Add(1)
		go func() {
			defer clients.Done()
			if err := toServer.TagSendWait(ctx, requests|ucp.Tag(i), []byte(word)); err != nil {
				panic(err)
			}
			buf := make([]byte, 100)
			info, err := client.TagRecvWait(ctx, answers|ucp.Tag(i), ucp.FullMask, buf)
			if err != nil {
				panic(err)
			}
			got[i] = string(buf[:info.Length])
		}()
	}
	clients.Wait()
	stop()
	handlers.Wait()
	fmt.Println(got)

	for _, c := range []interface{ Close() error }{client, server, clientContext, serverContext} {
		if err := c.Close(); err != nil {
			panic(err)
		}
	}
	// Output: [ANY NUMBER OF GOROUTINES SHARE A WORKER]
}
