package ucp

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// connManagers opens the managers of the context's components, in the order of
// UCX_SOCKADDR_TLS_PRIORITY.
func (w *Worker) connManagers() []manager {
	c := &w.conns
	if c.opened {
		return c.managers
	}
	c.opened = true
	for _, comp := range w.ctx.connManagers() {
		m := manager{name: comp.Name()}
		if m.uct, m.err = comp.OpenConnManager(w.uctw, w.ctx.set); m.err != nil {
			w.ctx.log.Diag("connection manager not usable", zap.String("component", m.name), zap.Error(m.err))
		}
		c.managers = append(c.managers, m)
	}
	return c.managers
}

// errNoManager says why there is no connection manager.
func errNoManager(list []manager) error {
	err := fmt.Errorf("ucp: no transport in use connects by socket address: add tcp to UCX_TLS: %w", ucs.ErrUnsupported)
	for _, m := range list {
		if m.err != nil {
			err = fmt.Errorf("%w; %s: %v", err, m.name, m.err)
		}
	}
	return err
}

// newConnEndpoint makes an endpoint that has no lanes yet.
func (w *Worker) newConnEndpoint(p *EndpointParams, c *connection) (*Endpoint, error) {
	ep := &Endpoint{
		w: w, errMode: p.ErrMode, life: life.End{Stage: life.Open, Managed: true}, short: -1, shortAM: -1, lacks: needID | needLanes,
		ue: refuse{}, cfg: &noLanes, where: nowhere, connSN: proto.ConnSNNone,
		pair: &pairing{conn: c}, onError: p.OnError, userData: p.UserData,
	}
	ep.setName(p.Name)
	id := w.endpoints.Put(ep)
	if id == 0 {
		return nil, fmt.Errorf("ucp: too many endpoints: %w", ucs.ErrExceedsLimit)
	}
	ep.localID = proto.EndpointID(id)
	ep.belongsTo(&peer{known: new(known)}) // who that is its first message says
	w.untied++
	for _, f := range w.families {
		f.opened(ep)
	}
	return ep, nil
}

// noLanes is the configuration of an endpoint that is not connected yet, and nowhere is
// where it leads to.
var (
	noLanes = epConfig{
		lanes: laneMap{am: proto.NullLane, wireup: proto.NullLane, keepalive: proto.NullLane},
		short: -1, shortAM: -1, mapFrom: never,
	}
	nowhere = &whereabouts{address: new(proto.WorkerAddress)}
)
