//go:build linux

package sockcm

import "github.com/ucx-go/ucx/uct"

// source is who is at the other end of a connection.
func (m *manager) source(l *link) uct.SourceInfo {
	info := uct.SourceInfo{Addr: l.remote, User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	if info.Local = m.host.Here(l.remote.Addr()); !info.Local {
		return info
	}
	if s, err := m.diag.Peer(l.local, l.remote); err == nil {
		info.User.Known, info.User.UID = true, s.UID
	}
	return info
}
