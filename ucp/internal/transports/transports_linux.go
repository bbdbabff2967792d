//go:build !simulate

package transports

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

// Absent lists the transports that this system does not have: none.
var Absent []Absence

// Encrypted returns the component of the transport that encrypts with TLS, for a TLS configuration.
func Encrypted(cfg *tls.Config) (uct.Component, error) { return tcp.TLS(cfg) }
