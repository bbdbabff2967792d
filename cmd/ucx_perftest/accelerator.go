//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// Options about memory other than host memory, and about operations that an accelerator starts. C's
// tool uses -L, -F, -Y and the blocks of -T only in tests with -a. This tool refuses -a, and all
// types of -m except host.

// memoryTypes maps the names of C's tool to memory types.
var memoryTypes = func() map[string]ucs.MemoryType {
	m := make(map[string]ucs.MemoryType)
	for t := ucs.MemoryHost; t.Valid(); t++ {
		m[t.String()] = t
	}
	return m
}()

// checkMemory refuses memory other than host memory.
func checkMemory(t ucs.MemoryType) error {
	switch t {
	case ucs.MemoryHost:
		return nil
	case ucs.MemoryRDMA:
		return fmt.Errorf("memory type %v (memory on RDMA devices), expected host: %w", t, errLeftOut)
	}
	return fmt.Errorf("memory type %v (GPU memory), expected host: %w", t, errLeftOut)
}

// bothSides splits a value into those of sender and receiver; one value stands for both.
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

// setAccelerators checks the accelerators of sender and receiver and refuses them.
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
	return fmt.Errorf("option -a %s: operations started by accelerators: %w", value, errLeftOut)
}

// setChannels reads the mode in which an accelerator chooses channels.
func setChannels(p *params, value string) (err error) {
	mode, seed, seeded := strings.Cut(value, ":")
	p.Accelerated.Channels, err = choice("Y", mode, map[string]perfoob.ChannelMode{
		"single": perfoob.ChannelsSingle, "random": perfoob.ChannelsRandom, "per-thread": perfoob.ChannelsPerThread,
	})
	switch {
	case err != nil || !seeded:
		return err
	case mode != "random":
		return badValue("Y", value, "a seed after random only")
	}
	p.Accelerated.Seed, err = number[uint64]("Y", seed)
	return err
}

// setThreads reads the number of threads, and the number of an accelerator's blocks of threads.
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
