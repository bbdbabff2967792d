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

// absent are the transports that this system does not have, and why.
var absent []skippedResource

// encrypted makes the component of encrypting.
func encrypted(cfg *tls.Config) (uct.Component, error) { return tcp.TLS(cfg) }
