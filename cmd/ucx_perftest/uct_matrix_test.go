//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// devices lists the device on which each transport between processes is tested.
var devices = map[string]string{
	"tcp": "lo", "posix": "memory", "sysv": "memory", "cma": "memory", "rc_verbs": "fake0:1", "ud_verbs": "fake0:1",
}

// A simulated RDMA device, without a kernel driver.
func init() {
	n := verbstest.NewFabric()
	n.Add(verbstest.Config{Name: "fake0"})
	uct.Register(ibtest.Network("fake", n))
}

// transportsOf returns the transports of a component that work between two processes.
func transportsOf(component string) []string {
	switch component {
	case "self", "rdmacm":
		return nil
	case "ib": // needs a device
		return nil
	case "fake":
		return []string{"rc_verbs", "ud_verbs"}
	}
	return []string{component}
}

// works lists what each transport supports, as test/layout; atomics have no layout. With a size,
// only that size is supported. Everything else must be refused by both sides, with an error that
// says what is missing.
var works = map[string][]string{
	"tcp": {
		"am_lat/short", "am_lat/bcopy", "am_lat/zcopy", "am_lat/shortiov", "am_bw/short", "am_bw/bcopy", "am_bw/zcopy",
		"am_bw/shortiov", "put_lat/zcopy", "put_bw/zcopy",
	},
	"posix": mapped,
	"sysv":  mapped,
	"cma":   {"put_lat/zcopy", "put_bw/zcopy", "get/zcopy", "get_bw/zcopy"},
	"rc_verbs": slices.Concat(messages, []string{
		"put_lat/short", "put_lat/bcopy", "put_lat/zcopy", "put_bw/short", "put_bw/bcopy", "put_bw/zcopy",
		"get/bcopy", "get_bw/bcopy", "get/zcopy/72", "get_bw/zcopy/72", "add_lat/8", "add_mr/8", "fadd/8", "cswap/8",
	}),
	"ud_verbs": messages,
}

// messages are all layouts of active messages.
var messages = []string{
	"am_lat/short", "am_lat/bcopy", "am_lat/zcopy", "am_lat/shortiov", "am_bw/short", "am_bw/bcopy", "am_bw/zcopy", "am_bw/shortiov",
}

// mapped is what transports support that map the peer's memory.
var mapped = []string{
	"am_lat/short", "am_lat/bcopy", "am_lat/shortiov", "am_bw/short", "am_bw/bcopy", "am_bw/shortiov",
	"put_lat/short", "put_lat/bcopy", "put_bw/short", "put_bw/bcopy", "get/bcopy", "get_bw/bcopy",
	"add_lat", "add_mr", "fadd", "swap", "cswap",
}

// TestMatrix runs every UCT test with every layout over every transport, between two sides, in the
// protocol of both releases.
func TestMatrix(t *testing.T) {
	var list []string
	for _, c := range uct.Components() {
		list = append(list, transportsOf(c.Name())...)
	}
	for _, transport := range list {
		device, known := devices[transport]
		if !known {
			t.Errorf("transport %s is not tested", transport)
			continue
		}
		for i := range perfoob.Tests {
			test := &perfoob.Tests[i]
			if test.API != perfoob.UCT {
				continue
			}
			layouts := []string{"short", "shortiov", "bcopy", "zcopy"}
			sizes := []string{"8", "72"}
			if isAtomic(test.Command) {
				layouts, sizes = []string{""}, []string{"4", "8"}
			}
			for l, layout := range layouts {
				name := strings.TrimSuffix(test.Name+"/"+layout, "/")
				for k, size := range sizes {
					args := []string{"-t", test.Name, "-x", transport, "-d", device, "-s", size,
						"--peer", []string{"1.13", "1.22"}[k], "-n", "40", "-w", "3", "-f"}
					if layout != "" {
						args = append(args, "-D", layout)
					}
					t.Run(fmt.Sprintf("%s/%s/%s", transport, name, size), func(t *testing.T) {
						if race.Enabled && (k != i%2 || len(layouts) > 1 && l%2 != i/2%2) {
							t.Skip("with the race detector one of four is enough")
						}
						if race.Enabled && transport == "sysv" {
							t.Skip("the race detector has seen posix, which is the same but for where its memory is")
						}
						if race.Enabled && transport == "rc_verbs" && test.Command != perfoob.CmdAM {
							t.Skip("the race detector sees who reads what comes, and not that a device writes it")
						}
						runCell(t, args, slices.Contains(works[transport], name) || slices.Contains(works[transport], name+"/"+size))
					})
				}
			}
		}
	}
}

// runCell runs one test, which must work if want is true, and be refused otherwise.
func runCell(t *testing.T, args []string, want bool) {
	t.Helper()
	_, client, errs := sides(t, nil, args)
	if want {
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatalf("server: %v, client: %v", errs[0], errs[1])
		}
		lines := strings.Split(strings.TrimSpace(client), "\n")
		if got := strings.Fields(lines[len(lines)-1]); len(got) != 8 || got[0] != "40" {
			t.Errorf("the client printed:\n%s", client)
		}
		return
	}
	for i, side := range []string{"server", "client"} {
		if !errors.Is(errs[i], ucs.ErrUnsupported) && !errors.Is(errs[i], ucs.ErrInvalidParam) {
			t.Errorf("%s: %v", side, errs[i])
		}
		if text := fmt.Sprint(errs[i]); !strings.Contains(text, "does not have") && !strings.Contains(text, "takes at least") && !strings.Contains(text, "is for active messages") {
			t.Errorf("%s: %q does not say what is missing", side, text)
		}
	}
}

// TestOperandSizes: atomics refuse operands of unsupported sizes.
func TestOperandSizes(t *testing.T) {
	for _, args := range []string{"-t fadd -s 16", "-t add_mr -s 2", "-t cswap -s 1", "-t swap -s 4,8"} {
		_, _, errs := sides(t, nil, append(strings.Fields(args), "-x", "tcp", "-d", "lo"))
		for i, side := range []string{"server", "client"} {
			if !errors.Is(errs[i], ucs.ErrInvalidParam) || !strings.Contains(errs[i].Error(), "4 or 8") {
				t.Errorf("%s, %s: %v", args, side, errs[i])
			}
		}
	}
}

// TestStep: adding the steps gives the next sequence number, without an overflow into the bytes
// behind it.
func TestStep(t *testing.T) {
	var word uint64 = unknownSN
	for sn := range 1000 {
		word += uint64(step(uint8(sn), uint8(sn-1)))
		if word != uint64(uint8(sn)) {
			t.Fatalf("after %d steps the word is %#x", sn+1, word)
		}
	}
}

// TestFindDomain: the error lists the existing devices, and why others are missing.
func TestFindDomain(t *testing.T) {
	_, err := newUCT(newTeam(alone{}, 1).member(0),
		&params{Params: perfoob.Params{Transport: "none", Device: "memory", Test: perfoob.TestByName("am_lat")}}, new(counter))
	if !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), "self/memory") {
		t.Errorf("got %v", err)
	}
}
