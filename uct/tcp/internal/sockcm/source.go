//go:build linux

package sockcm

import "github.com/ucx-go/ucx/uct"

// source returns the identity of the peer of a connection.
func (m *manager) source(l *link) uct.SourceInfo {
	info := uct.SourceInfo{Addr: l.Remote, User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	if info.Local = m.host.Here(l.Remote.Addr()); !info.Local {
		return info
	}
	if s, err := m.diag.Peer(l.Local, l.Remote); err == nil {
		info.User.Known, info.User.UID = true, s.UID
	}
	return info
}
