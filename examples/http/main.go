// Http is a file server and its client over UCP: between processes of one machine the files go
// through shared memory.
//
//	http -serve DIRECTORY         prints where it listens
//	http -get http://HOST:PORT/FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/ucx-go/ucx/ucpnet"
)

func main() {
	serve := flag.String("serve", "", "serve the files of this directory, until an interrupt")
	listen := flag.String("listen", "127.0.0.1:0", "where to")
	get := flag.String("get", "", "write what is at this URL to standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	err := errors.New("either -serve or -get is needed")
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("%q: no arguments are known but the flags that -h lists", flag.Args())
	case *serve != "" && *get != "":
		err = fmt.Errorf("-serve %s and -get %s exclude each other", *serve, *get)
	case *serve != "":
		err = runServer(ctx, *serve, *listen)
	case *get != "":
		err = fetch(ctx, *get, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
}

// runServer serves until ctx ends.
func runServer(ctx context.Context, dir, address string) error {
	l, err := ucpnet.Listen("ucp", address)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return serveFiles(ctx, l, dir)
}

func serveFiles(ctx context.Context, l net.Listener, dir string) error {
	s := &http.Server{Handler: http.FileServer(http.Dir(dir))}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	err := s.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// fetch writes the contents of a URL to w.
func fetch(ctx context.Context, url string, w io.Writer) error {
	transport := &http.Transport{DialContext: new(ucpnet.Config).DialContext}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	_, err = io.Copy(w, res.Body)
	return err
}
