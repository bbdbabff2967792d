package arena

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// PageSizes returns the smallest and the largest size of the pages with which memory of this
// process is mapped, as the kernel reports them, or PageSize if it does not. Transparent huge pages
// do not count, because the kernel may split and merge them at any time.
func PageSizes(b []byte) (smallest, largest int) {
	if len(b) > 0 {
		if text, err := os.ReadFile("/proc/self/smaps"); err == nil {
			from := uint64(address(b))
			smallest, largest = pageSizes(text, from, from+uint64(len(b)))
		}
	}
	if smallest == 0 {
		return PageSize, PageSize
	}
	return smallest, largest
}

// pageSizes looks up the mappings that overlap [from, to) in the text of /proc/pid/smaps (proc(5)).
// It returns zeros if there is none.
func pageSizes(smaps []byte, from, to uint64) (smallest, largest int) {
	inside := false
	for sc := bufio.NewScanner(bytes.NewReader(smaps)); sc.Scan(); {
		word, rest, _ := strings.Cut(sc.Text(), " ")
		if low, high, ok := strings.Cut(word, "-"); ok {
			l, _ := strconv.ParseUint(low, 16, 64)
			h, _ := strconv.ParseUint(high, 16, 64)
			inside = l < to && from < h
		} else if inside && word == "KernelPageSize:" {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil || kib <= 0 {
				continue
			}
			if n := kib << 10; smallest == 0 {
				smallest, largest = n, n
			} else {
				smallest, largest = min(smallest, n), max(largest, n)
			}
		}
	}
	return smallest, largest
}
