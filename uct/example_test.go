package uct_test

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	_ "github.com/ucx-go/ucx/uct/self" // registers itself
)

const greeting uct.AMID = 7

// From a component to a message: a component lists memory domains, a domain opens interfaces on a
// worker, and an interface makes endpoints to addresses. This interface is its own peer.
func Example() {
	settings := new(config.Set)
	for _, component := range uct.Components() {
		domains, err := component.MemoryDomains(settings)
		if err != nil || component.Name() != "self" {
			continue
		}
		if err := greet(component, domains[0].Name, settings); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// on self/memory
	// received "hello", with header 42
}

func greet(component uct.Component, name string, settings *config.Set) error {
	domain, err := component.OpenMD(name, settings)
	if err != nil {
		return err
	}
	defer domain.Close()
	worker, err := uct.NewWorker()
	if err != nil {
		return err
	}
	defer worker.Close()

	resources, err := domain.Resources()
	if err != nil {
		return err
	}
	fmt.Printf("on %s/%s\n", resources[0].Transport, resources[0].Device)
	iface, err := domain.OpenIface(worker, uct.IfaceParams{
		Transport: resources[0].Transport, Device: resources[0].Device,
	}, settings)
	if err != nil {
		return err
	}
	defer iface.Close()

	received := false
	err = iface.SetAMHandler(greeting, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
		received = true
		fmt.Printf("received %q, with header %d\n", data[8:], data[0])
		return nil
	})
	if err != nil {
		return err
	}
	endpoint, err := iface.NewEndpoint(uct.EndpointParams{DeviceAddr: iface.DeviceAddress(), IfaceAddr: iface.Address()})
	if err != nil {
		return err
	}
	defer endpoint.Close()
	if err := endpoint.AMShort(greeting, 42, []byte("hello"), 0, nil); err != nil {
		return err
	}
	for !received {
		worker.Progress()
	}
	return nil
}
