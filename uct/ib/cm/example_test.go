//go:build linux

package cm_test

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/cm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm/rdmacmtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// machine is a simulated machine. Programs get the component of the machine they run on from
// uct.ConnManagers.
type machine struct {
	cm     *rdmacmtest.Kernel
	device *verbstest.Kernel
}

func (m machine) Channel() (*rdmacm.EventChannel, error) {
	f, err := m.cm.Open()
	if err != nil {
		return nil, err
	}
	return rdmacm.NewChannel(f)
}

func (m machine) Devices() ([]verbs.Device, error) {
	return []verbs.Device{{Name: "rxe0", NodeType: verbs.NodeCA, NodeGUID: rdmacmtest.NodeGUID}}, nil
}

func (m machine) Open(*verbs.Device) (*verbs.Context, error) {
	return verbs.NewContext(m.device.Open(), 0)
}

// A client and a server on one worker exchange private data.
func ExampleNewComponent() {
	component := cm.NewComponent(machine{rdmacmtest.New(), verbstest.New()})
	w, err := uct.NewWorker()
	if err != nil {
		panic(err)
	}
	defer w.Close()
	m, err := component.OpenConnManager(w, new(config.Set))
	if err != nil {
		panic(err)
	}
	defer m.Close()

	done := false
	l, err := m.Listen(netip.MustParseAddrPort("127.0.0.1:0"), uct.ListenParams{
		OnRequest: func(_ uct.Listener, r *uct.ConnRequest) {
			fmt.Printf("the client says %q over %s\n", r.Private, r.Device)
			if _, err := m.Accept(r, uct.AcceptParams{
				Private:  []byte("welcome"),
				OnNotify: func(uct.ConnEndpoint, error) { done = true },
			}); err != nil {
				panic(err)
			}
		},
	})
	if err != nil {
		panic(err)
	}
	if _, err := m.Connect(uct.ConnectParams{
		Remote: l.Addr(),
		Pack:   func(_ uct.PackArgs, dst []byte) (int, error) { return copy(dst, "hello"), nil },
		OnConnected: func(ep uct.ConnEndpoint, a uct.ConnectedArgs) {
			fmt.Printf("the server says %q\n", a.Private)
			ep.Notify()
		},
	}); err != nil {
		panic(err)
	}
	for !done {
		w.Progress()
	}
	// Output:
	// the client says "hello" over rxe0:1
	// the server says "welcome"
}
