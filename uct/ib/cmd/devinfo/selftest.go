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

// checkTime is the time limit of one check.
const checkTime = 30 * time.Second

// errLacking is the result of a check that needs a feature which the device lacks.
var errLacking = errors.New("not supported by the device or its driver")

// checks are the checks of a device, simple ones first.
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
	{"memory reregistered", checkRereg},
	{"invalid key, and flushed requests", checkBadKey},
	{"no receive posted: RNR retries", checkRNR},
	{"queue pair reset and used again", checkReset},
	{"objects closed with requests outstanding", checkClosing},
}

// selftest tries every operation that the library uses a device for, with queue pairs of one port
// that are connected to each other. It compares the data, prints a report and returns the exit
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
		out.Flush() // the next check may hang; the last Flush returns any error
	}
	dev.speed(out)
	fmt.Fprintf(out, "\n%d passed, %d failed\n", passed, failed)
	fmt.Fprintf(out, "to run the tests of package verbs too, and compare with libmlx5 on the same card: make selftest DEVICE=%s, in the sources\n", d.Name)
	if failed > 0 {
		return exitFailure, nil
	}
	return exitOK, nil
}

// system describes the operating system, the architecture, the Go version and the page size.
func system() string {
	var u unix.Utsname
	release := "?"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("Linux %s, %s, %s, pages of %d bytes", release, runtime.GOARCH, runtime.Version(), unix.Getpagesize())
}

// underTest is the device that is checked, and its port that the checks use.
type underTest struct {
	c    *verbs.Context
	attr verbs.DeviceAttr
	port uint8
	mtu  verbs.MTU
	lid  verbs.LID // InfiniBand only
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
		return nil, fmt.Errorf("port %d is %v: check the cable and the subnet manager, or select another port (-i)", num, p.State)
	}
	gid, err := c.DefaultGID(num)
	if err != nil {
		return nil, err
	}
	return &underTest{c: c, attr: attr, port: uint8(num), mtu: p.ActiveMTU, lid: p.LID, gid: gid}, nil
}

// try runs a check with a time limit of checkTime, closes the objects that the check has created,
// and returns the errors of both.
func (d *underTest) try(run func(*check) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	k := &check{underTest: d, ctx: ctx}
	err := run(k)
	return errors.Join(err, k.close())
}

// speed prints the average time to post a write of 8 bytes, and the average time until its
// completion.
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
