package ucpnet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/ucx-go/ucx/ucpnet"
)

// An echo server, until the client closes its sending side.
func Example() {
	l, err := ucpnet.Listen("ucp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		io.Copy(c, c)
	}()

	c, err := ucpnet.Dial("ucp", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "hello, ")
	fmt.Fprint(c, "socket")
	c.(*ucpnet.Conn).CloseWrite()
	text, err := io.ReadAll(c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", text)
	// Output: hello, socket
}

// HTTP over shared memory: the same with package net would be
// http.Serve(listener, …) and http.Get.
func Example_http() {
	l, err := ucpnet.Listen("ucp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you want %s\n", r.URL.Path)
	})}
	go server.Serve(l)
	defer server.Close()

	transport := &http.Transport{DialContext: new(ucpnet.Config).DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	r, err := http.NewRequestWithContext(context.Background(), "GET", "http://"+l.Addr().String()+"/news", nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output: you want /news
}
