//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// checkTime bounds one check, for the case that the device says nothing more.
const checkTime = 30 * time.Second

// errLacking is what a check returns that needs what the device does not have.
var errLacking = errors.New("not supported by the device or its driver")

// checks are what the device is tried at, the simple before what builds on it.
var checks = []struct {
	name string
	run  func(*check) error
}{
	{"RC: send and receive", checkSend},
	{"RC: send inline, gather and scatter", checkGather},
	{"RC: write, write with immediate data, read", checkRDMA},
	{"RC: compare and swap, fetch and add", checkAtomics},
	{"RC: 2000 messages, 32 of them posted at once", checkBatches},
	{"RC: memory windows", checkWindows},
	{"UC: send and write", checkUC},
	{"UD: datagrams up to the MTU", checkUD},
	{"shared receive queue, and its limit", checkSRQ},
	{"completion events, solicited and all", checkEvents},
	{"completion queue resized with completions in it", checkResize},
	{"memory registered anew", checkRereg},
	{"a key that is wrong, and requests flushed", checkBadKey},
	{"no receive posted: RNR retries", checkRNR},
	{"queue pair reset and used again", checkReset},
	{"objects closed with requests outstanding", checkClosing},
}

// selftest tries a device at all that the library does with one, by queue pairs of one port
// that are connected to each other, checks the data, and prints a report. It returns the exit
// code.
func selftest(out *bufio.Writer, c *verbs.Context, d *verbs.Device, o *options) (int, error) {
	dev, err := newUnderTest(c, o)
	if err != nil {
		return exitQuery, err
	}
	fmt.Fprintf(out, "selftest of %s, port %d\n\tdriver:\t%s\n\tsystem:\t%s\n", d.Name, dev.port, c.Driver(), system())
	fmt.Fprintf(out, "\tby:\tGID %d, %v (%v)\n\n", dev.gid.Index, dev.gid.GID, dev.gid.Type)
	passed, failed := 0, 0
	for _, k := range checks {
		switch err := dev.try(k.run); {
		case err == nil:
			passed++
			fmt.Fprintf(out, "ok      %s\n", k.name)
		case errors.Is(err, errLacking):
			fmt.Fprintf(out, "-       %s: %v\n", k.name, err)
		default:
			failed++
			fmt.Fprintf(out, "FAILED  %s: %v\n", k.name, err)
		}
		out.Flush() // the next may never end; an error comes back with the last
	}
	dev.speed(out)
	fmt.Fprintf(out, "\n%d passed, %d failed\n", passed, failed)
	fmt.Fprintf(out, "to run the tests of package verbs too, and compare with libmlx5 on the same card: make selftest DEVICE=%s, in the sources\n", d.Name)
	if failed > 0 {
		return exitFailure, nil
	}
	return exitOK, nil
}

// system names what the library runs on.
func system() string {
	var u unix.Utsname
	release := "?"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("Linux %s, %s, %s, pages of %d bytes", release, runtime.GOARCH, runtime.Version(), unix.Getpagesize())
}

// underTest is a device that checks are run on, through one port.
type underTest struct {
	c    *verbs.Context
	attr verbs.DeviceAttr
	port uint8
	mtu  verbs.MTU
	lid  verbs.LID // with InfiniBand
	gid  verbs.GIDEntry
}

func newUnderTest(c *verbs.Context, o *options) (*underTest, error) {
	attr, err := c.QueryDevice()
	if err != nil {
		return nil, err
	}
	num := max(o.port, 1)
	if num > attr.Ports {
		return nil, fmt.Errorf("%w, it has %d", errNoPort, attr.Ports)
	}
	p, err := c.QueryPort(num)
	if err != nil {
		return nil, err
	}
	if p.State != verbs.PortActive {
		return nil, fmt.Errorf("port %d is %v; a cable or the network's manager is missing, or another port is meant (-i)", num, p.State)
	}
	gid, err := c.DefaultGID(num)
	if err != nil {
		return nil, err
	}
	return &underTest{c: c, attr: attr, port: uint8(num), mtu: p.ActiveMTU, lid: p.LID, gid: gid}, nil
}

// try runs a check and closes what it has made.
func (d *underTest) try(run func(*check) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	k := &check{underTest: d, ctx: ctx}
	err := run(k)
	return errors.Join(err, k.close())
}

// speed prints how long it takes to post a write of 8 bytes, and until it is done.
func (d *underTest) speed(out io.Writer) {
	err := d.try(func(k *check) error {
		a, b, err := k.pair(verbs.RC)
		if err != nil {
			return err
		}
		const rounds = 1000
		wr := []verbs.SendWR{{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}}
		var post, whole time.Duration
		for range rounds {
			start := time.Now()
			if err := a.send(wr...); err != nil {
				return err
			}
			post += time.Since(start)
			if _, err := a.done(0, verbs.WCRDMAWrite); err != nil {
				return err
			}
			whole += time.Since(start)
		}
		fmt.Fprintf(out, "\nwrite of 8 bytes: posted in %v, done after %v, on average\n", post/rounds, whole/rounds)
		return nil
	})
	if err != nil {
		fmt.Fprintf(out, "\nwrite of 8 bytes: %v\n", err)
	}
}
