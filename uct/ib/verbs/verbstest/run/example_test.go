//go:build linux && (amd64 || arm64)

package run_test

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
)

// A machine with a simulated adapter, and a C program on it.
func Example() {
	network := verbstest.NewFabric()
	network.Add(verbstest.Config{MLX5: &verbstest.MLX5{}, Ports: []verbstest.Port{{InfiniBand: true}}})
	machine, err := run.New(network)
	if err != nil {
		fmt.Println(err) // the kernel is too old, or forbids it
		return
	}
	defer machine.Close()
	cmd := exec.Command("ibv_devinfo", "-d", "mlx5_0")
	cmd.Stdout = os.Stdout
	if err := machine.Run(cmd); err != nil {
		fmt.Println(err)
	}
}
