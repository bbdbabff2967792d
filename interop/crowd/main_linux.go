// Crowd measures the performance of many goroutines, each of which repeatedly sends a request to
// another process and waits for the reply. The goroutines share one worker and one endpoint of
// package ucp, or have a socket each. Crowd starts the other process itself and prints the requests per
// second, the median and the 99th percentile of a request's time in microseconds, and the processor time of a
// request in microseconds, of both processes together.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

var (
	over       = flag.String("over", "ucp", "transport: ucp, unix or tcp, the last two as sockets of Go")
	goroutines = flag.Int("goroutines", 64, "number of concurrent requesters")
	requests   = flag.Int("requests", 2000, "number of requests of each, one after the other")
	size       = flag.Int("size", 64, "bytes of a request, and of its reply")
	busy       = flag.Int("busy", 0, "number of processes that use the processors meanwhile")
	serve      = flag.Bool("serve", false, "answer the process on standard input and output")
)

// warmup is the number of requests of each goroutine that are not counted.
const warmup = 50

// link connects the two processes. Its methods get the number of a goroutine, and memory for the
// message.
type link interface {
	ask(n int, message []byte) error
	answer(n int, message []byte) error
	close() error
}

// pipe is the connection over which the processes exchange their addresses.
type pipe struct {
	io.Reader
	io.Writer
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("crowd: ")
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	if *serve {
		l, err := open(pipe{os.Stdin, os.Stdout})
		if err != nil {
			return err
		}
		if err := answerAll(l); err != nil {
			return err
		}
		return l.close()
	}
	stop, err := load(*busy)
	defer stop()
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], append([]string{"-serve"}, os.Args[1:]...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	l, err := open(pipe{out, in})
	if err != nil {
		return err
	}
	times, took, err := askAll(l)
	if err != nil {
		return err
	}
	if err := l.close(); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	slices.Sort(times)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() + ownTime()
	at := func(percent int) float64 { return float64(times[len(times)*percent/100].Nanoseconds()) / 1000 }
	fmt.Printf("%.0f %.3f %.3f %.3f\n", float64(len(times))/took.Seconds(), at(50), at(99), float64(used.Microseconds())/float64(len(times)+warmup**goroutines))
	return nil
}

// ownTime returns the processor time of this process.
func ownTime() time.Duration {
	var s syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &s) != nil {
		return 0
	}
	return time.Duration(s.Utime.Nano() + s.Stime.Nano())
}

// load starts n processes that only use the processors, until stop is called.
func load(n int) (stop func(), err error) {
	var started []*exec.Cmd
	stop = func() {
		for _, c := range started {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range n {
		c := exec.Command("sh", "-c", "while kill -0 $PPID; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done") // ends with this process
		if err := c.Start(); err != nil {
			return stop, err
		}
		started = append(started, c)
	}
	return stop, nil
}

func open(p pipe) (link, error) {
	switch *over {
	case "ucp":
		return openUCP(p)
	case "unix", "tcp":
		return openSockets(p, *over)
	}
	return nil, fmt.Errorf("-over %s: expected ucp, unix or tcp", *over)
}

// askAll makes all goroutines send requests, and returns the time of each request.
func askAll(l link) (times []time.Duration, took time.Duration, err error) {
	times = make([]time.Duration, *goroutines**requests)
	var ready, over sync.WaitGroup
	begin := make(chan struct{})
	failed := make(chan error, *goroutines)
	for n := range *goroutines {
		ready.Add(1)
		over.Add(1)
		isReady := sync.OnceFunc(ready.Done)
		go func() {
			defer over.Done()
			defer isReady() // also if the goroutine fails
			message := make([]byte, *size)
			own := times[n**requests : (n+1)**requests]
			for i := range warmup + len(own) {
				if i == warmup {
					isReady()
					<-begin
				}
				start := time.Now()
				if err := l.ask(n, message); err != nil {
					failed <- err
					return
				}
				if i >= warmup {
					own[i-warmup] = time.Since(start)
				}
			}
		}()
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	over.Wait()
	took = time.Since(start)
	select {
	case err = <-failed:
	default:
	}
	return times, took, err
}

// answerAll answers the requests of all goroutines.
func answerAll(l link) error {
	var over sync.WaitGroup
	failed := make(chan error, *goroutines)
	for n := range *goroutines {
		over.Add(1)
		go func() {
			defer over.Done()
			message := make([]byte, *size)
			for range warmup + *requests {
				if err := l.answer(n, message); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	over.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// exchange sends this process's address to the other process, and returns the other's.
func (p pipe) exchange(own []byte) ([]byte, error) {
	if _, err := p.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(own))), own...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(p, length[:]); err != nil {
		return nil, err
	}
	other := make([]byte, binary.LittleEndian.Uint32(length[:]))
	_, err := io.ReadFull(p, other)
	return other, err
}
