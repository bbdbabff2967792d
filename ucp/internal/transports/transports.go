// Package transports links the transports into programs that use package ucp, and lists the
// transports that a system does not have. It is the only package of ucp that imports transports:
// the rest of ucp uses them through the interfaces of package uct and its registry, to which each
// transport adds itself when it is imported. A new transport is one import here.
package transports

import _ "github.com/ucx-go/ucx/uct/self"

// Encrypting is the name of the transport that encrypts with TLS. It exists only with a TLS
// configuration (Encrypted).
const Encrypting = "tls"

// Absence is a transport that this system does not have, with the reason.
type Absence struct{ Name, Reason string }
