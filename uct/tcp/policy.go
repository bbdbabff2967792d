//go:build linux

package tcp

import (
	"fmt"
	"net/netip"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// Access control: a connection is accepted if it comes from a network of UCX_TCP_ALLOW and the
// application's callback accepts it.

// allowAll is the value of UCX_TCP_ALLOW that allows all connections.
const allowAll = "all"

// parseAllow parses UCX_TCP_ALLOW. A nil result allows all connections.
func parseAllow(list []string) ([]netip.Prefix, error) {
	nets := []netip.Prefix{}
	for _, text := range list {
		text = strings.TrimSpace(text)
		if strings.EqualFold(text, allowAll) {
			return nil, nil
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, aerr := netip.ParseAddr(text)
			if aerr != nil || a.Zone() != "" {
				return nil, fmt.Errorf("tcp: UCX_TCP_ALLOW contains %q, expected networks like 10.1.0.0/16, addresses, or %s: %w", text, allowAll, ucs.ErrInvalidParam)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("tcp: UCX_TCP_ALLOW contains %v, which has bits beyond its mask; the network is %v: %w", p, p.Masked(), ucs.ErrInvalidParam)
		}
		nets = append(nets, p)
	}
	return nets, nil
}

// allows reports whether connections from an address are accepted.
func (o *options) allows(from netip.Addr) bool {
	if o.allow == nil {
		return true
	}
	from = from.WithZone("") // prefixes have no zone
	for _, p := range o.allow {
		if p.Contains(from) {
			return true
		}
	}
	return false
}

// unwanted counts a connection that access control has refused on its source's account, and logs
// such connections at most once a minute.
func (i *iface) unwanted(a *ledger.Account, from netip.AddrPort) {
	if a.Refuse(ledger.Policy) {
		i.svc.w.Log().Warn("refusing a connection: source address not in UCX_TCP_ALLOW", zap.Stringer("from", from), zap.Stringer("listener", i.addr))
	}
}
