package sim_test

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// The simulated transport is a component like any other. Its options and its plan determine what
// its network does to messages. Here the endpoint is busy for two rounds at its first attempt to
// send.
func ExampleNew() {
	component := sim.New(sim.Options{
		Latency: 3, // rounds
		Plan: func(op fault.Op) (e fault.Effect) {
			if op.Attempt == 1 {
				e.Stall = 2
			}
			return e
		},
	})
	if err := send(component); err != nil {
		fmt.Println(err)
	}
	// Output: refused 2 times; <nil>; arrived: true
}

func send(component uct.Component) error {
	settings := new(config.Set)
	domains, err := component.MemoryDomains(settings)
	if err != nil {
		return err
	}
	domain, err := component.OpenMD(domains[0].Name, settings)
	if err != nil {
		return err
	}
	defer domain.Close()
	resources, err := domain.Resources()
	if err != nil {
		return err
	}
	worker, err := uct.NewWorker()
	if err != nil {
		return err
	}
	defer worker.Close()
	iface, err := domain.OpenIface(worker, uct.IfaceParams{
		Transport: resources[0].Transport, Device: resources[0].Device,
	}, settings)
	if err != nil {
		return err
	}
	defer iface.Close()

	arrived := false
	handler := func(*uct.Source, []byte, *uct.AMDesc) error {
		arrived = true
		return nil
	}
	if err := iface.SetAMHandler(1, handler); err != nil {
		return err
	}
	endpoint, err := iface.NewEndpoint(uct.EndpointParams{DeviceAddr: iface.DeviceAddress(), IfaceAddr: iface.Address()})
	if err != nil {
		return err
	}
	defer endpoint.Close()

	refused := 0
	for err = ucs.ErrNoResource; err == ucs.ErrNoResource; worker.Progress() {
		if err = endpoint.AMShort(1, 0, nil, 0, nil); err == ucs.ErrNoResource {
			refused++
		}
	}
	for !arrived {
		worker.Progress()
	}
	fmt.Printf("refused %d times; %v; arrived: %v\n", refused, err, arrived)
	return nil
}
