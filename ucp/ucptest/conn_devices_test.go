//go:build linux

package ucptest

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// TestConnDevicesDiffer checks that two sides connect if only one of them has
// UCX_CM_USE_ALL_DEVICES=n, as the client's data contains the setting. Unless both have y, all
// lanes are of one device.
func TestConnDevicesDiffer(t *testing.T) {
	v1 := setting{"SA_DATA_VERSION", "v1"}
	for name, more := range map[string][]setting{"v2": nil, "v1": {v1}} {
		for _, test := range []struct {
			name           string
			server, client []setting
			shared         bool // one of the lanes is over shared memory, which is another device
		}{
			{"both all", nil, nil, true},
			{"server one", []setting{oneDevice}, nil, false},
			{"client one", nil, []setting{oneDevice}, false},
			{"both one", []setting{oneDevice}, []setting{oneDevice}, false},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				tr := connTransports[slices.IndexFunc(connTransports, func(tr transport) bool { return tr.name == "tcp, posix and cma" })]
				tr = tr.with(more...)
				r := newConnRig(t, tr)
				r.transport = tr.with(test.server...)
				h := r.open().hall(false)
				r.transport = tr.with(test.client...)
				c := r.open()
				there, back := r.joined(c, h, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
				for _, ep := range []*ucp.Endpoint{there, back} {
					lanes := ep.Attr().Transports
					if shared := slices.ContainsFunc(lanes, func(l ucp.Transport) bool { return l.Name == "posix" }); shared != test.shared {
						t.Errorf("lanes %v", lanes)
					}
					if err := ep.Err(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}
