package ucp

// The transports that are part of every program that uses ucp. This file is the
// only place in the package that knows their names.
import (
	"crypto/tls"

	"github.com/ucx-go/ucx/uct"
	_ "github.com/ucx-go/ucx/uct/self"
	_ "github.com/ucx-go/ucx/uct/shm"
	_ "github.com/ucx-go/ucx/uct/shm/cma"
	"github.com/ucx-go/ucx/uct/tcp"
)

// encrypting is the transport that there is only for who gives a configuration, and
// encrypted makes its component.
const encrypting = "tls"

func encrypted(cfg *tls.Config) (uct.Component, error) { return tcp.TLS(cfg) }
