//go:build simulate

package simnet

import (
	"regexp"
	"slices"
)

// Shrink returns a program with as few steps as possible that fails in the same way as p, which has
// failed with err. It runs at most the given number of programs.
func Shrink(p *Program, err error, runs int) *Program {
	class := failureClass(err)
	return shrinkTo(p, runs, func(r Result) bool { return r.Err != nil && failureClass(r.Err) == class })
}

// shrinkTo returns a program with as few steps as possible whose result keeps accepts, as that of p.
func shrinkTo(p *Program, runs int, keeps func(Result) bool) *Program {
	s := &shrinker{best: p, keeps: keeps, runs: runs}
	for before := -1; s.runs > 0 && before != s.size(); {
		before = s.size()
		s.removeFaults()
		s.removeProcesses()
		s.removeSteps()
		s.simplify()
	}
	return s.best
}

type shrinker struct {
	best  *Program
	keeps func(Result) bool
	runs  int
}

var numbers = regexp.MustCompile(`\([a-z]+ id=[^)]*\)|0x[0-9a-f]+|[0-9]+`)

// failureClass returns what two failures of one cause have in common.
func failureClass(err error) string {
	text := numbers.ReplaceAllString(err.Error(), "#")
	return text[:min(len(text), 40)]
}

// size measures a program.
func (s *shrinker) size() int { return len(s.best.String()) }

// try keeps q if its result is accepted.
func (s *shrinker) try(q *Program) bool {
	if s.runs <= 0 {
		return false
	}
	s.runs--
	if !s.keeps(q.Run(nil)) {
		return false
	}
	s.best = q
	return true
}

// removeFaults removes faults.
func (s *shrinker) removeFaults() {
	for k := 0; k < len(s.best.Faults); {
		q := s.best.Clone()
		q.Faults = slices.Delete(q.Faults, k, k+1)
		if !s.try(q) {
			k++
		}
	}
}

// withoutProcess removes the faults of a process, and renumbers the others.
func (p *Program) withoutProcess(n int) {
	ofProcess := func(f Fault) bool { return faultKinds[f.Kind].hosts == 0 }
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { return ofProcess(f) && f.A == n })
	for k := range p.Faults {
		if f := &p.Faults[k]; ofProcess(*f) && f.A > n {
			f.A--
		}
	}
}

// removeSteps removes parts of the lists, large ones first.
func (s *shrinker) removeSteps() {
	for n := max(1, s.best.Steps()/2); n >= 1; n /= 2 {
		for at := 0; at < s.best.Steps(); {
			if q := s.best.Clone(); !s.try(q.without(at, n)) {
				at += n
			}
		}
	}
}

// without removes n steps, which it counts through all lists.
func (p *Program) without(at, n int) *Program {
	k := 0
	for _, l := range p.lists() {
		var kept []Step
		for _, s := range *l {
			if k < at || k >= at+n {
				kept = append(kept, s)
			}
			k++
		}
		*l = kept
	}
	return p
}

// removeProcesses removes processes, workers and goroutines.
func (s *shrinker) removeProcesses() {
	for i := 0; i < len(s.best.Processes) && len(s.best.Processes) > 1; {
		first := 0
		for _, pr := range s.best.Processes[:i] {
			first += len(pr.Workers)
		}
		q := s.best.Clone()
		n := len(q.Processes[i].Workers)
		q.Processes = slices.Delete(q.Processes, i, i+1)
		q.withoutProcess(i)
		for range n {
			q.withoutWorker(first)
		}
		if !s.try(q) {
			i++
		}
	}
	worker := 0
	for i := range s.best.Processes {
		for k := 0; k < len(s.best.Processes[i].Workers); {
			if len(s.best.Processes[i].Workers) > 1 {
				q := s.best.Clone()
				q.Processes[i].Workers = slices.Delete(q.Processes[i].Workers, k, k+1)
				q.withoutWorker(worker)
				if s.try(q) {
					continue
				}
			}
			for g := 1; g < len(s.best.Processes[i].Workers[k].Goroutines); {
				q := s.best.Clone()
				w := &q.Processes[i].Workers[k]
				w.Goroutines = slices.Delete(w.Goroutines, g, g+1)
				if !s.try(q) {
					g++
				}
			}
			k++
			worker++
		}
	}
}

// withoutWorker removes the steps that address a worker, and renumbers the others.
func (p *Program) withoutWorker(n int) {
	for _, l := range p.lists() {
		*l = slices.DeleteFunc(*l, func(s Step) bool { return s.Peer == n && n > 0 && kinds[s.Kind].peer })
		for k := range *l {
			if s := &(*l)[k]; s.Peer > n {
				s.Peer--
			}
		}
	}
}

// simplify makes steps and settings simpler.
func (s *shrinker) simplify() {
	for i := range s.best.Processes {
		for k := 0; k < len(s.best.Processes[i].Settings); {
			q := s.best.Clone()
			for i := range q.Processes {
				if k < len(q.Processes[i].Settings) {
					q.Processes[i].Settings = slices.Delete(q.Processes[i].Settings, k, k+1)
				}
			}
			if q.Processes[i].Settings == nil || !hasTLS(q) || !s.try(q) {
				k++
			}
		}
		if s.best.Processes[i].Multi {
			q := s.best.Clone()
			q.Processes[i].Multi = false
			single := true
			for _, w := range q.Processes[i].Workers {
				single = single && len(w.Goroutines) == 1
			}
			if single {
				s.try(q)
			}
		}
	}
	if s.best.Hosts > 1 {
		q := s.best.Clone()
		q.Hosts = 1
		s.try(q)
	}
	for k := range s.best.Faults {
		q := s.best.Clone()
		q.Faults[k].For /= 2
		s.try(q)
	}
	for list := range s.best.lists() {
		for k := range *s.best.lists()[list] {
			change := func(f func(*Step)) {
				q := s.best.Clone()
				st := &(*q.lists()[list])[k]
				before := *st
				if f(st); *st != before {
					s.try(q)
				}
			}
			change(func(s *Step) { s.N = min(s.N, 1) })
			change(func(s *Step) { s.N = (s.N + 1) / 2 })
			change(func(s *Step) { s.Delay = 0 })
			change(func(s *Step) {
				if s.Flags&flagBlock == 0 {
					s.Wait = 0
				}
			})
			for f := range flagNames {
				change(func(s *Step) { s.Flags &^= 1 << f })
			}
			change(func(s *Step) { s.Size = 0 })
			change(func(s *Step) { s.Size /= 2 })
			change(func(s *Step) { s.How = 0 })
			change(func(s *Step) { s.Head = 0 })
			change(func(s *Step) { s.Off = 0 })
			change(func(s *Step) { s.Class = 0 })
		}
	}
}

// hasTLS reports whether all processes have a list of transports, without which they would use those
// of the machine.
func hasTLS(p *Program) bool {
	for _, pr := range p.Processes {
		if !slices.ContainsFunc(pr.Settings, func(s string) bool { return len(s) > 4 && s[:4] == "TLS=" }) {
			return false
		}
	}
	return true
}
