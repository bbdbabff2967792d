package ucp

import (
	"crypto/tls"

	"github.com/ucx-go/ucx/uct"
	_ "github.com/ucx-go/ucx/uct/ib/cm"
	_ "github.com/ucx-go/ucx/uct/ib/rc"
	_ "github.com/ucx-go/ucx/uct/ib/ud"
	_ "github.com/ucx-go/ucx/uct/shm"
	_ "github.com/ucx-go/ucx/uct/shm/cma"
	"github.com/ucx-go/ucx/uct/tcp"
)

// absent lists the transports that this system does not have, with the reasons.
var absent []skippedResource

// encrypted returns the component of the transport encrypting, with a TLS configuration.
func encrypted(cfg *tls.Config) (uct.Component, error) { return tcp.TLS(cfg) }
