package ucp

// The transports that are part of every program that uses ucp. The files of this name
// are the only place in the package that knows theirs.
import _ "github.com/ucx-go/ucx/uct/self"

// encrypting is the transport that there is only for who gives a configuration.
const encrypting = "tls"
