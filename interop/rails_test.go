package interop

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
)

// The second cable between two linked places.
const (
	firstRail, firstRailAddress   = "ucx2", "198.19.0.1/24"
	secondRail, secondRailAddress = "ucx3", "198.19.0.2/24"
)

// TestRails: two machines with two cables between them, in networks of their own.
// Large messages go over both, whoever has opened which connection.
func TestRails(t *testing.T) {
	dir := t.TempDir()
	c := buildC(t, dir)
	ours := buildGo(t, dir)
	here, there, err := newLinkedPlaces()
	if err != nil {
		needtest.Right(t, "two network namespaces: "+err.Error())
	}
	defer here.close()
	defer there.close()
	var thread int
	there.do(func() { thread = unix.Gettid() })
	err = here.ip("link add "+firstRail+" type veth peer name "+secondRail,
		"link set "+secondRail+" netns "+strconv.Itoa(thread),
		"addr add "+firstRailAddress+" dev "+firstRail,
		"link set "+firstRail+" up")
	if err == nil {
		err = there.ip("addr add "+secondRailAddress+" dev "+secondRail, "link set "+secondRail+" up")
	}
	if err != nil {
		t.Fatal(err)
	}
	over, back := network(device{"two cables", firstDevice + "," + firstRail}), network(device{"two cables", secondDevice + "," + secondRail})
	for _, theirs := range append([]program{ours}, c...) {
		for _, mode := range []string{"none", "peer"} {
			t.Run(theirs.name+"/"+mode, func(t *testing.T) {
				p, err := newPairApart(here, there, ours, theirs, setting{mode: mode}, over, back)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if said := p.abort(); t.Failed() && said != nil {
						t.Log(said)
					}
				}()
				send := expected("contig", "contig", "async")
				for _, size := range []int{8, 32 << 20, 1 << 20} {
					if err := send(p.theirs, p.ours, &p.msgs, size); err != nil {
						t.Fatalf("to us, %d bytes: %v", size, err)
					}
					if err := send(p.ours, p.theirs, &p.msgs, size); err != nil {
						t.Fatalf("from us, %d bytes: %v", size, err)
					}
				}
				if err := p.close(mode); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
