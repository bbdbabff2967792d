package insn

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// function is a range of addresses with a name. Code of a file that is in no symbol table belongs
// to functions with the name of the file in square brackets.
type function struct {
	name       string
	start, end uint64
}

// image is the functions of a program and of the libraries that it has loaded, by address. None
// overlaps another.
type image []*function

// nowhere is the function of an address that belongs to no file.
var nowhere = &function{name: "?"}

// find returns the function that an address belongs to.
func (m image) find(addr uint64) *function {
	i, exact := slices.BinarySearchFunc(m, addr, func(f *function, addr uint64) int { return cmp.Compare(f.start, addr) })
	if !exact {
		i--
	}
	if i < 0 || addr >= m[i].end {
		return nowhere
	}
	return m[i]
}

// The kernel maps a file with functions into each process. C's library has functions of the same
// names.
const (
	kernelPath   = "[vdso]"
	kernelPrefix = "vdso."
)

// segment is a part of a file that a process has mapped to execute it.
type segment struct {
	start, end uint64 // addresses
	offset     uint64 // in the file
	path       string
}

// loadImage reads the symbol tables of a process. The function peek reads its memory.
func loadImage(pid int, peek func(addr uint64, b []byte) error) (image, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var m image
	for _, s := range segments(string(maps)) {
		var file *elf.File
		if s.path == kernelPath {
			b := make([]byte, s.end-s.start)
			if err := peek(s.start, b); err != nil {
				return nil, err
			}
			file, err = elf.NewFile(bytes.NewReader(b))
		} else {
			file, err = elf.Open(s.path)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		list, err := s.functions(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		m = append(m, list...)
	}
	slices.SortFunc(m, func(a, b *function) int { return cmp.Compare(a.start, b.start) })
	return m, nil
}

// segments returns the executable segments of files in the text of /proc/PID/maps.
func segments(maps string) (list []segment) {
	for line := range strings.Lines(maps) {
		var s segment
		var rights, device, inode string
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %s %s", &s.start, &s.end, &rights, &s.offset, &device, &inode, &s.path)
		if n == 7 && strings.Contains(rights, "x") && (s.path == kernelPath || strings.HasPrefix(s.path, "/")) {
			list = append(list, s)
		}
	}
	return list
}

// functions returns the functions of a segment.
func (s segment) functions(file *elf.File) (image, error) {
	const page = 4096
	i := slices.IndexFunc(file.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Off&^(page-1) <= s.offset && s.offset < p.Off+p.Filesz
	})
	if i < 0 {
		return nil, fmt.Errorf("no segment at offset %#x", s.offset)
	}
	moved := s.start - s.offset + file.Progs[i].Off - file.Progs[i].Vaddr
	symbols, err := file.Symbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		symbols, err = file.DynamicSymbols()
	}
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	var list image
	for _, y := range symbols {
		if kind := elf.ST_TYPE(y.Info); kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || y.Section == elf.SHN_UNDEF {
			continue
		}
		f := &function{name: y.Name, start: y.Value + moved, end: y.Value + moved + y.Size}
		if s.path == kernelPath {
			f.name = kernelPrefix + strings.TrimPrefix(y.Name, "__vdso_")
		}
		if s.start <= f.start && f.start < s.end {
			list = append(list, f)
		}
	}
	return s.fill(list), nil
}

// fill puts functions into order: of several at one address it keeps the first, it ends each where
// the next one begins, and it adds functions where there are none.
func (s segment) fill(list image) (filled image) {
	slices.SortStableFunc(list, func(a, b *function) int { return cmp.Compare(a.start, b.start) })
	list = slices.CompactFunc(list, func(a, b *function) bool { return a.start == b.start })
	rest := "[" + strings.Trim(path.Base(s.path), "[]") + "]"
	at := s.start
	for i, f := range list {
		next := s.end
		if i+1 < len(list) {
			next = list[i+1].start
		}
		if at < f.start {
			filled = append(filled, &function{rest, at, f.start})
		}
		if f.end = min(f.end, next); f.end == f.start { // C's assembly has functions without a size
			f.end = next
		}
		filled, at = append(filled, f), f.end
	}
	if at < s.end {
		filled = append(filled, &function{rest, at, s.end})
	}
	return filled
}
