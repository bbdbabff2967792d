//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// Options about memory that is not the host's, and about operations that an
// accelerator starts. C's tool uses -L, -F, -Y and the blocks of -T in tests with
// -a only; -a and the types of -m but host are refused here.

// memoryTypes maps the names that C's tool knows.
var memoryTypes = func() map[string]ucs.MemoryType {
	m := make(map[string]ucs.MemoryType)
	for t := ucs.MemoryHost; t.Valid(); t++ {
		m[t.String()] = t
	}
	return m
}()

// checkMemory refuses memory that is not the host's.
func checkMemory(t ucs.MemoryType) error {
	switch t {
	case ucs.MemoryHost:
		return nil
	case ucs.MemoryRDMA:
		return fmt.Errorf("memory type %v: no support for memory on RDMA devices here; host only: %w", t, errLeftOut)
	}
	return fmt.Errorf("memory type %v: no support for GPU memory here; host only: %w", t, errLeftOut)
}

// bothSides are the values for sender and receiver, or the one for both.
func bothSides(value string) []string { return strings.SplitN(value, ",", 2) }

// setMemory reads the memory types of sender and receiver.
func setMemory(value string) error {
	var refused error
	for _, name := range bothSides(value) {
		t, err := choice("m", name, memoryTypes)
		if err != nil {
			return err
		}
		if refused == nil {
			refused = checkMemory(t)
		}
	}
	return refused
}

// setAccelerators reads the accelerators of sender and receiver, of which there are
// none.
func setAccelerators(value string) error {
	for _, device := range bothSides(value) {
		name, id, numbered := strings.Cut(device, ":")
		if _, err := choice("a", name, memoryTypes); err != nil {
			return err
		}
		if _, err := strconv.ParseInt(id, 10, 32); numbered && (err != nil || id[0] == '-') {
			return badValue("a", value, "a number of a device after the colon")
		}
	}
	return fmt.Errorf("option -a %s: no support for operations started by accelerators here: %w", value, errLeftOut)
}

// setChannels reads how an accelerator chooses channels.
func setChannels(p *params, value string) (err error) {
	mode, seed, seeded := strings.Cut(value, ":")
	p.Accelerated.Channels, err = choice("Y", mode, map[string]perfoob.ChannelMode{
		"single": perfoob.ChannelsSingle, "random": perfoob.ChannelsRandom, "per-thread": perfoob.ChannelsPerThread,
	})
	switch {
	case err != nil || !seeded:
		return err
	case mode != "random":
		return badValue("Y", value, "no seed but for random")
	}
	p.Accelerated.Seed, err = number[uint64]("Y", seed)
	return err
}

// setThreads reads the number of threads, and of an accelerator's blocks of them.
func setThreads(p *params, value string) (err error) {
	threads, blocks, both := strings.Cut(value, ":")
	if p.Threads, err = number[uint32]("T", threads); err != nil {
		return err
	}
	p.Accelerated.Blocks = 1
	if both {
		if p.Accelerated.Blocks, err = number[uint32]("T", blocks); err != nil {
			return err
		}
	}
	if p.Threads == 0 || p.Accelerated.Blocks == 0 {
		return badValue("T", value, "a number from 1")
	}
	return nil
}
