package ucp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// saDataVersion is the value of UCX_SA_DATA_VERSION.
type saDataVersion proto.CMVersion

// ParseConfig implements config.Value.
func (v *saDataVersion) ParseConfig(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "v1":
		*v = saDataVersion(proto.CMDataV1)
	case "v2":
		*v = saDataVersion(proto.CMDataV2)
	default:
		return fmt.Errorf("%q is neither v1 nor v2: %w", s, ucs.ErrInvalidParam)
	}
	return nil
}

// String implements config.Value.
func (v saDataVersion) String() string { return fmt.Sprintf("v%d", v+1) }

// ConfigSyntax describes the values for error messages and listings.
func (saDataVersion) ConfigSyntax() string { return "v1 or v2" }

// backlog is UCX_LISTENER_BACKLOG for a connection manager, which takes 0 for as many as the
// system allows.
func (s *settings) backlog() int {
	if s.Backlog.IsAuto() {
		return 0
	}
	return max(s.Backlog.Int(0), 1)
}

// connManagers lists the components that connect by socket address, in the order of
// UCX_SOCKADDR_TLS_PRIORITY.
func (c *Context) connManagers() (list []uct.ConnManagerComponent) {
	if c.params.RequireTLS {
		return nil // what they carry is not encrypted
	}
	has := uct.ConnManagers()
	for _, name := range c.settings.SockaddrTLS.Items {
		if name == "sockcm" {
			name = "tcp"
		}
		k := slices.IndexFunc(has, func(m uct.ConnManagerComponent) bool { return m.Name() == name })
		if k >= 0 && !slices.Contains(list, has[k]) {
			list = append(list, has[k])
		}
	}
	return list
}
