package ucp_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/ucp"
)

// Peers prove their identity to each other by certificates. In a real program the certificate
// comes from files (tls.LoadX509KeyPair), together with the certificate of the authority that has
// signed all of them.
func ExampleContextParams_tls() {
	authority := certtest.New()
	// snippet tls
	params := ucp.ContextParams{
		Features: ucp.FeatureTag,
		TLS: &tls.Config{
			Certificates: []tls.Certificate{authority.Issue("job.example", certtest.Day)},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			RootCAs:      authority.Pool,
			ClientCAs:    authority.Pool,
			ServerName:   "job.example", // the name in the certificates of all peers
		},
		RequireTLS: true, // nothing else over networks
	}
	// end
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		log.Fatal(err)
	}
	if err := cfg.Modify("TLS", "tls"); err != nil { // no other transport, not even shared memory
		log.Fatal(err)
	}
	ctx, err := ucp.NewContext(params, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer ctx.Close()
	w, err := ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	addr, err := w.Address(0)
	if err != nil {
		log.Fatal(err)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr}) // here the worker is its own peer
	if err != nil {
		log.Fatal(err)
	}
	send, err := ep.TagSend(1, []byte("hello"), nil)
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
	fmt.Printf("%s over %s\n", buf[:info.Length], ep.Attr().Transports[0].Name)
	// Output:
	// hello over tls
}
