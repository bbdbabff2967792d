//go:build linux

package perfoob

// Test is a test of C's tool.
type Test struct {
	Name     string
	API      API
	Command  Command
	Type     Type
	Desc     string
	Overhead string // heading of the latency columns
	Window   uint32 // default number of outstanding operations
}

// Tests lists the tests in the order of release 1.22's table (tests[] in
// perftest.c).
var Tests = []Test{
	{"am_lat", UCT, CmdAM, PingPong, "active message latency", "latency", 1},
	{"put_lat", UCT, CmdPut, PingPong, "put latency", "latency", 1},
	{"add_lat", UCT, CmdAdd, PingPong, "atomic add latency", "latency", 1},
	{"get", UCT, CmdGet, StreamUni, "get latency / bandwidth / message rate", "latency", 1},
	{"fadd", UCT, CmdFAdd, StreamUni, "atomic fetch-and-add latency / rate", "latency", 1},
	{"swap", UCT, CmdSwap, StreamUni, "atomic swap latency / rate", "latency", 1},
	{"cswap", UCT, CmdCSwap, StreamUni, "atomic compare-and-swap latency / rate", "latency", 1},
	{"am_bw", UCT, CmdAM, StreamUni, "active message bandwidth / message rate", "overhead", 1},
	{"put_bw", UCT, CmdPut, StreamUni, "put bandwidth / message rate", "overhead", 32},
	{"get_bw", UCT, CmdGet, StreamUni, "get bandwidth / message rate", "overhead", 32},
	{"add_mr", UCT, CmdAdd, StreamUni, "atomic add message rate", "overhead", 1},
	{"tag_lat", UCP, CmdTag, PingPong, "tag match latency", "latency", 1},
	{"tag_bw", UCP, CmdTag, StreamUni, "tag match bandwidth", "overhead", 32},
	{"tag_sync_lat", UCP, CmdTagSync, PingPong, "tag sync match latency", "latency", 1},
	{"tag_sync_bw", UCP, CmdTagSync, StreamUni, "tag sync match bandwidth", "overhead", 32},
	{"ucp_put_lat", UCP, CmdPut, PingPong, "put latency", "latency", 1},
	{"ucp_put_bw", UCP, CmdPut, StreamUni, "put bandwidth", "overhead", 32},
	{"ucp_get", UCP, CmdGet, StreamUni, "get latency / bandwidth / message rate", "latency", 1},
	{"ucp_add", UCP, CmdAdd, StreamUni, "atomic add bandwidth / message rate", "overhead", 1},
	{"ucp_fadd", UCP, CmdFAdd, StreamUni, "atomic fetch-and-add latency / bandwidth / rate", "latency", 1},
	{"ucp_swap", UCP, CmdSwap, StreamUni, "atomic swap latency / bandwidth / rate", "latency", 1},
	{"ucp_cswap", UCP, CmdCSwap, StreamUni, "atomic compare-and-swap latency / bandwidth / rate", "latency", 1},
	{"stream_bw", UCP, CmdStream, StreamUni, "stream bandwidth", "overhead", 1},
	{"stream_lat", UCP, CmdStream, PingPong, "stream latency", "latency", 1},
	{"ucp_am_lat", UCP, CmdAM, PingPong, "am latency", "latency", 1},
	{"ucp_am_bw", UCP, CmdAM, StreamUni, "am bandwidth / message rate", "overhead", 32},
}

// noTest is the test id of a client whose tests come from a batch file.
const noTest = -1

// getBW is the position of the one test that release 1.13 does not have.
const getBW = 9

// TestByName returns the test with a name, or nil.
func TestByName(name string) *Test {
	for i := range Tests {
		if Tests[i].Name == name {
			return &Tests[i]
		}
	}
	return nil
}

// id returns the position of t in the table of release r.
func (t *Test) id(r Release) int32 {
	for i := range Tests {
		if t != &Tests[i] {
			continue
		}
		if r == Release113 && i > getBW {
			i--
		}
		return int32(i)
	}
	return noTest
}

// testByID is the inverse of id.
func testByID(id int32, r Release) *Test {
	if r == Release113 && id >= getBW {
		id++
	}
	if id < 0 || int(id) >= len(Tests) {
		return nil
	}
	return &Tests[id]
}

// testLike returns the first test of an API, command and type.
func testLike(a API, c Command, typ Type) *Test {
	for i := range Tests {
		if t := &Tests[i]; t.API == a && t.Command == c && t.Type == typ {
			return t
		}
	}
	return nil
}
