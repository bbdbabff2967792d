// Package fuzztest runs the fuzz targets of the module, in either of two ways.
//
// As usual, Run is testing.F.Fuzz: go test runs the seeds, and go test -fuzz looks for inputs that
// reach new code, in processes of its own, some thousand inputs a second.
//
// With the environment variable FUZZ_EXECUTIONS, each seed is also followed by that number of
// inputs that are made from the seeds so far by random changes, in the process of the test and
// without a look at what they reach: as fast as the target itself. FUZZ_SEED selects other random
// numbers; a failure prints the input as Go source and its number.
package fuzztest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"
)

// Run runs a fuzz target: a function as for testing.F.Fuzz.
func Run(f *testing.F, target any) {
	n, _ := strconv.Atoi(os.Getenv("FUZZ_EXECUTIONS"))
	if n <= 0 {
		f.Fuzz(target)
		return
	}
	seed, _ := strconv.ParseUint(os.Getenv("FUZZ_SEED"), 10, 64)
	l := &loop{
		target: reflect.ValueOf(target), n: n,
		m: mutator{rng: rand.New(rand.NewPCG(seed, 0xf022))},
	}
	f.Fuzz(reflect.MakeFunc(l.target.Type(), func(args []reflect.Value) []reflect.Value {
		l.run(args[0].Interface().(*testing.T), args[1:])
		return nil
	}).Interface())
	f.Logf("%d inputs, %.0f a second", l.executed, float64(l.executed)/l.took.Seconds())
}

// loop runs a target with inputs made from its seeds.
type loop struct {
	target   reflect.Value
	n        int
	m        mutator
	corpus   [][]any
	executed int
	took     time.Duration
}

// run runs the target with a seed, and then with inputs made from the seeds so far.
func (l *loop) run(t *testing.T, seed []reflect.Value) {
	entry := make([]any, len(seed))
	for k, v := range seed {
		entry[k] = v.Interface()
	}
	l.corpus = append(l.corpus, entry)
	args := make([]reflect.Value, 1+len(entry))
	args[0] = reflect.ValueOf(t)
	input := entry
	over := false
	defer func() {
		if !over || t.Failed() {
			t.Logf("input %d: %s", l.executed, source(input))
		}
	}()
	l.target.Call(append(args[:1:1], seed...))
	started := time.Now()
	for range l.n {
		input = l.m.input(l.corpus)
		for k := range input {
			args[1+k] = reflect.ValueOf(input[k])
		}
		l.executed++
		l.target.Call(args)
		if t.Failed() {
			break
		}
	}
	l.took += time.Since(started)
	over = true
}

// source returns an input as the lines of a file in testdata/fuzz.
func source(input []any) string {
	text := "go test fuzz v1"
	for _, v := range input {
		switch v := v.(type) {
		case []byte:
			text += fmt.Sprintf("\n[]byte(%q)", v)
		default:
			text += fmt.Sprintf("\n%T(%#v)", v, v)
		}
	}
	return text
}
