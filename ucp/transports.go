package ucp

// The transports that every program with package ucp contains. Only the files transports*.go of this
// package import transports.
import _ "github.com/ucx-go/ucx/uct/self"

// encrypting is the name of the transport that exists only with ContextParams.TLS.
const encrypting = "tls"
