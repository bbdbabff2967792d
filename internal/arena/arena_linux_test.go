package arena

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

func TestMap(t *testing.T) {
	for _, o := range []Options{{}, {Populate: true}, {Huge: TransparentPages, Populate: true}, {Address: 0x7e0000000000}, {DontFork: true}} {
		b, err := Map(PageSize+1, o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if len(b) != 2*PageSize || int(address(b))%PageSize != 0 {
			t.Errorf("%+v: %d bytes at %#x", o, len(b), address(b))
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("%+v: byte %d is %d", o, i, b[i])
			}
		}
		b[0], b[len(b)-1] = 1, 2
		WillNeed(b, 10, PageSize)
		WillNeed(b, 0, 0)
		if b[0] != 1 || b[len(b)-1] != 2 {
			t.Errorf("%+v: advice changed the memory", o)
		}
		if err := Unmap(b); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{0, -1, int(^uint(0) >> 1)} {
		if _, err := Map(n, Options{}); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := Map(math.MaxInt/2+1, Options{}); strconv.IntSize == 64 && !errors.Is(err, ucs.ErrNoMemory) {
		t.Errorf("more than there is: %v", err)
	}
}

// TestDontFork: the kernel shows the flag for the memory (proc(5), VmFlags).
func TestDontFork(t *testing.T) {
	for _, dont := range []bool{false, true} {
		b, err := Map(PageSize, Options{DontFork: dont})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Skipf("the kernel does not tell: %v", err)
		}
		inside, said := false, false
		for line := range strings.Lines(string(text)) {
			var from, to uint64
			if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
				inside = from <= uint64(address(b)) && uint64(address(b)) < to
			} else if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
				said = slices.Contains(strings.Fields(flags), "dc")
			}
		}
		if said != dont {
			t.Errorf("not copied to children: %v, want %v", said, dont)
		}
		if err := Unmap(b); err != nil {
			t.Error(err)
		}
	}
}

// TestFixed: memory is at the fixed address that was asked for, and never replaces an existing
// mapping.
func TestFixed(t *testing.T) {
	b, err := Map(4*PageSize, Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(address(b))
	if _, err := Map(PageSize, Options{Address: at + uint64(PageSize), Fixed: true}); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("an address in use: %v", err)
	}
	if err := Unmap(b); err != nil {
		t.Fatal(err)
	}
	c, err := Map(PageSize, Options{Address: at, Fixed: true})
	if err != nil {
		t.Skipf("the address was taken meanwhile: %v", err)
	}
	if uint64(address(c)) != at {
		t.Errorf("at %#x, want %#x", address(c), at)
	}
	if err := Unmap(c); err != nil {
		t.Error(err)
	}
}
