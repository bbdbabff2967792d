//go:build linux && (amd64 || arm64)

// Command rdmasim runs an unmodified program on simulated RDMA devices: ibv_devinfo, perftest,
// ucx_perftest, or any program of this module, on any Linux machine, without RDMA hardware, kernel
// modules, or root.
//
//	rdmasim ibv_devinfo -v
//	rdmasim sh -c 'ibv_rc_pingpong -g 0 & sleep 1; rc_pingpong localhost; wait'
//
// All child processes of the program use the same devices.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest/run"
)

const usage = `Usage: rdmasim [OPTION]... PROGRAM [ARGUMENT]...
Runs a program, and all that it starts, on simulated RDMA devices.

`

// wrong returns a description of the first invalid argument, "" if there is none.
func wrong(n int, link, kind string, program []string) string {
	switch {
	case n < 1 || n > 32:
		return fmt.Sprintf("-n %d: wanted 1 to 32 devices", n)
	case link != "eth" && link != "ib":
		return fmt.Sprintf("-link %s: wanted eth or ib", link)
	case kind != "mlx5" && kind != "rxe":
		return fmt.Sprintf("-type %s: wanted mlx5 or rxe", kind)
	case len(program) == 0:
		return "no program given"
	}
	return ""
}

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	n := flag.Int("n", 2, "number of `devices`")
	link := flag.String("link", "eth", "link of their ports: `eth or ib`")
	kind := flag.String("type", "mlx5", "type of the devices: `mlx5 or rxe`")
	verbose := flag.Bool("v", false, "log requests that a device would not accept, and calls that are refused")
	flag.Parse()
	if flaw := wrong(*n, *link, *kind, flag.Args()); flaw != "" {
		fmt.Fprintln(os.Stderr, "rdmasim:", flaw)
		flag.Usage()
		os.Exit(2)
	}
	var adapter *verbstest.MLX5
	if *kind == "mlx5" {
		adapter = &verbstest.MLX5{Loose: true}
	}
	network := newNetwork(*n, *link == "ib", adapter)
	if *verbose {
		network.SetLog(func(text string) { fmt.Fprintln(os.Stderr, "rdmasim:", text) })
	}
	status, err := runOn(network, exec.Command(flag.Arg(0), flag.Args()[1:]...))
	if err != nil {
		fmt.Fprintln(os.Stderr, "rdmasim:", err)
		os.Exit(127)
	}
	os.Exit(status)
}

// newNetwork returns a network of n devices with one port each: mlx5_ib devices with the
// configuration mlx5, or rdma_rxe devices if mlx5 is nil.
func newNetwork(n int, infiniBand bool, mlx5 *verbstest.MLX5) *verbstest.Fabric {
	network := verbstest.NewFabric()
	for i := range n {
		c := verbstest.Config{MLX5: mlx5, Ports: []verbstest.Port{{InfiniBand: infiniBand}}}
		if !infiniBand {
			c.Ports[0].GIDs = addresses(i)
		}
		network.Add(c)
	}
	return network
}

// addresses returns the GIDs of the n-th device on Ethernet: a link-local and an IPv4 one, on the
// network interface lo, which all machines have.
func addresses(n int) []verbstest.GID {
	gids := []verbstest.GID{verbstest.IP(fmt.Sprintf("fe80::200:ff:fe00:%x", n+1)), verbstest.IP(fmt.Sprintf("127.0.1.%d", n+1))}
	for i := range gids {
		gids[i].NetDev, gids[i].IfIndex = "lo", 1
	}
	return gids
}

// runOn runs a program on a network's devices, and returns its exit status when it and all its
// children have ended.
func runOn(network *verbstest.Fabric, cmd *exec.Cmd) (status int, err error) {
	m, err := run.New(network)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := m.Start(cmd); err != nil {
		return 0, err
	}
	over := make(chan error)
	go func() {
		err := cmd.Wait()
		m.Wait()
		over <- err
	}()
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGINT { // which a terminal sends to all processes
				cmd.Process.Signal(s)
			}
		case err := <-over:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
					return 128 + int(w.Signal()), nil
				}
				return exit.ExitCode(), nil
			}
			return 0, err
		}
	}
}
