//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/ucs"
)

// setTestOption sets an option of a test.
func setTestOption(p *params, opt, value string) (err error) {
	switch opt {
	case "t":
		if p.Test = perfoob.TestByName(value); p.Test == nil {
			return badValue(opt, value, "a test; -h lists them")
		}
	case "n":
		p.Iters, err = number[uint64](opt, value)
	case "w":
		p.WarmupIters, err = number[uint64](opt, value)
	case "s":
		p.Sizes, err = parseSizes(value)
	case "i":
		p.Stride, err = number[int](opt, value)
	case "O":
		p.Window, err = number[uint32](opt, value)
	case "W":
		p.FCWindow, err = number[uint32](opt, value)
	case "H":
		p.UCTHeader, err = number[int](opt, value)
		p.UCPHeader = p.UCTHeader
	case "R":
		if p.Percentile, err = strconv.ParseFloat(value, 64); err != nil || !(p.Percentile >= 0 && p.Percentile <= 100) {
			return badValue(opt, value, "a number from 0 to 100")
		}
	case "D":
		return setLayout(p, value)
	case "d":
		p.Device = value
	case "x":
		p.Transport = value
	case "T":
		return setThreads(p, value)
	case "M":
		p.ThreadMode, err = choice(opt, value, map[string]ucs.ThreadMode{
			"single": ucs.ThreadModeSingle, "serialized": ucs.ThreadModeSerialized, "multi": ucs.ThreadModeMulti,
		})
	case "E":
		p.block = value == "block"
		p.WaitMode, err = choice(opt, value, map[string]perfoob.WaitMode{
			"poll": perfoob.WaitPoll, "sleep": perfoob.WaitSleep,
			"block": perfoob.WaitPoll, // the other side, which may be C's tool, gets WaitPoll
		})
	case "m":
		return setMemory(value)
	case "a":
		return setAccelerators(value)
	case "L":
		p.Accelerated.Level, err = choice(opt, value, map[string]perfoob.CooperationLevel{
			"thread": perfoob.LevelThread, "warp": perfoob.LevelWarp, "block": perfoob.LevelBlock, "grid": perfoob.LevelGrid,
		})
	case "F":
		if p.Accelerated.Window, err = number[uint32](opt, value); err == nil && p.Accelerated.Window == 0 {
			return badValue(opt, value, "a number from 1")
		}
	case "Y":
		return setChannels(p, value)
	case "l":
		p.Flags |= perfoob.FlagLoopback
	case "C":
		p.Flags |= perfoob.FlagTagWildcard
	case "U":
		p.Flags |= perfoob.FlagTagUnexpProbe
	case "I":
		p.Flags |= perfoob.FlagWakeup
	case "e":
		p.Flags |= perfoob.FlagErrHandling
	case "q":
		p.Flags &^= perfoob.FlagVerbose
	case "o":
		p.Flags |= perfoob.FlagOneSided
	case "B":
		p.Flags |= perfoob.FlagMapNonblock
	case "y":
		p.Flags |= perfoob.FlagAMReceiverCopies
	case "z":
		p.Flags |= perfoob.FlagPreregistered
	case "r":
		var f perfoob.Flags
		f, err = choice(opt, value, map[string]perfoob.Flags{"recv": 0, "recv_data": perfoob.FlagStreamRecvData})
		p.Flags = p.Flags&^perfoob.FlagStreamRecvData | f
	case "A":
		p.Async, err = choice(opt, value, map[string]perfoob.AsyncMode{
			"thread": perfoob.AsyncThreadSpinlock, "thread_spinlock": perfoob.AsyncThreadSpinlock,
			"thread_mutex": perfoob.AsyncThreadMutex, "signal": perfoob.AsyncSignal,
		})
	default:
		return leftOut(opt)
	}
	return err
}

// parseSizes reads "8", "16,48,4096" or "1024:16", which is sixteen times 1024.
func parseSizes(value string) ([]int, error) {
	if size, count, ok := strings.Cut(value, ":"); ok {
		n, err := number[int]("s", count)
		if err != nil {
			return nil, err
		}
		s, err := number[int]("s", size)
		if err != nil {
			return nil, err
		}
		if n < 1 || n > perfoob.MaxSizes {
			return nil, badValue("s", value, fmt.Sprintf("at most %d parts", perfoob.MaxSizes))
		}
		list := make([]int, n)
		for i := range list {
			list[i] = s
		}
		return list, nil
	}
	var list []int
	for _, part := range strings.Split(value, ",") {
		s, err := number[int]("s", part)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// setLayout reads a UCT layout, or the UCP datatypes of sender and receiver.
func setLayout(p *params, value string) error {
	layouts := map[string]perfoob.Layout{
		"short": perfoob.Short, "shortiov": perfoob.ShortIOV, "bcopy": perfoob.Bcopy, "zcopy": perfoob.Zcopy,
	}
	if l, ok := layouts[value]; ok {
		p.Layout = l
		return nil
	}
	datatypes := map[string]perfoob.Datatype{"contig": perfoob.Contig, "iov": perfoob.IOV}
	send, recv, both := strings.Cut(value, ",")
	s, ok := datatypes[send]
	if !ok {
		return badValue("D", value, "short, shortiov, bcopy, zcopy, contig or iov")
	}
	p.SendType = s
	if both {
		if p.RecvType, ok = datatypes[recv]; !ok {
			return badValue("D", value, "contig or iov after the comma")
		}
	}
	return nil
}

// number reads a nonnegative decimal number.
func number[T int | uint32 | uint64](opt, value string) (T, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || uint64(T(n)) != n || T(n) < 0 {
		return 0, badValue(opt, value, "a number")
	}
	return T(n), nil
}

func choice[T any](opt, value string, choices map[string]T) (T, error) {
	v, ok := choices[value]
	if !ok {
		return v, badValue(opt, value, "one of "+strings.Join(slices.Sorted(maps.Keys(choices)), ", "))
	}
	return v, nil
}
