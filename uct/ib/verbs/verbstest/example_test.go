//go:build linux

package verbstest_test

import (
	"fmt"
	"log"
	"os"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// The example lists and opens two devices of a network like those of a kernel. Code that accepts
// devices and a function to open them can be tested this way.
func Example() {
	network := verbstest.NewFabric()
	network.Add(verbstest.Config{})
	network.Add(verbstest.Config{Ports: []verbstest.Port{{GIDs: []verbstest.GID{verbstest.IP("192.168.0.5")}, MTU: 3}}})

	sysfs, err := os.MkdirTemp("", "sysfs") // in a test: t.TempDir()
	fail(err)
	defer os.RemoveAll(sysfs)
	fail(network.WriteSysfs(sysfs))
	devices, err := verbs.Devices(sysfs)
	fail(err)
	open := func(d *verbs.Device) (*verbs.Context, error) {
		return verbs.NewContext(network.Find(d.Name).Open(), d.ABIVersion)
	}

	for i := range devices {
		dev, err := open(&devices[i])
		fail(err)
		port, err := dev.QueryPort(1)
		fail(err)
		gid, err := dev.DefaultGID(1)
		fail(err)
		fmt.Println(devices[i].Name, gid.GID.Addr(), port.ActiveMTU, devices[i].Ports[0].RateText)
		fail(dev.Close())
	}
	// Output:
	// rxe0 10.9.0.1 4096 10 Gb/sec (1X FDR10)
	// rxe1 192.168.0.5 1024 10 Gb/sec (1X FDR10)
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
