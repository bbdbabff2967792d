//go:build linux

package interop

import (
	"regexp"
	"testing"
)

// endingReason is a reason why some cells with Go differ from those of C with C.
type endingReason struct {
	name string
	of   *regexp.Regexp // matches differences in the form that unexplained prints
	text string
}

// failures matches the words for one or several failed operations.
const failures = `((waits>)?(reset|timeout|canceled|unconnected|unreachable|io|noelem|failed|rejected)\|?)+`

// A difference is "LINK OPERATION PHASE HOW WHO, COLUMN, FIELD: OURS, C THEIRS". The first reason
// that matches applies: those for single operations come before those for words.
var endingReasons = []endingReason{
	{"abort", regexp.MustCompile(`: \S*crash|, C \S*crash`),
		`C aborts, with C or with us: 1.13 where a worker is destroyed that has a rendezvous, a get or a fetching atomic
		under way (assertions of ucp_ep.c), both releases where the requester of a get has gone when they look. Ours
		ends.`},
	{"amo", regexp.MustCompile(`(post|fetch) .*, (GC 1.22.0|CG 1.22.0|GG), .*, C`),
		`C 1.22 has no protocol for atomics by messages in error mode peer: "cannot find remote protocol", and the
		endpoint fails (proto_reconfig.c). Ours carries them out.`},
	{"kept", regexp.MustCompile(`am2M \S+ shutdown peer, `),
		`The offer comes to a handler that keeps it while its worker shuts down: our Shutdown waits, as long as its
		context lasts, for the program to receive or release it; C closes without.`},
	{"streamcancel", regexp.MustCompile(`streamrecv posted cancel self, `),
		`C does not cancel receives of streams; ours does, and the bytes stay in the stream.`},
	{"unread", regexp.MustCompile(`(unseen|matched) (force|worker) peer, [^,]*, got: \S*(waits|none)`),
		`What the side that closes by force has not read goes with the connection; the receive is of any sender, and
		waits for another. C reads once more before it closes the socket, or not.`},
	{"unsent", regexp.MustCompile(`(unseen|matched|posted) (force|worker) self, [^,]*, (op|got): `),
		`What has not left when the side of the operation closes by force is canceled, and may arrive or not. C writes
		more, or less, of it in the call.`},
	{"owed", regexp.MustCompile(`(flush|shutdown|worker) peer, GC [^,]*, then: \S*waits|(flush|shutdown|worker) peer, CG [^,]*, then: \S*waits`),
		`A peer of C that has closed its end never answers what it had not matched. Our close waits for the operation, as
		long as the program lets it (the context of Shutdown); that of C ends, and the operation never does.`},
	{"honest", regexp.MustCompile(`, op: (ok\|)?` + failures + `, C ok`),
		`C calls the operation done though the peer has ended before it had all of it; ours has failed.`},
	{"cut", regexp.MustCompile(`@ (flush|put1M|get1M) unseen (flush|shutdown) peer, GC [^,]*, (op|got): `),
		`The access goes by messages and takes several rounds; a server of C that closes disconnects at once, and that
		fails it. C as the client has written more by then. Our server gives it time.`},
	{"early", regexp.MustCompile(`(shutdown self|shutdown peer), C[CG] [^,]*, (op|got): `),
		`The close of C ends while its rendezvous is under way, and the destruction of its worker cancels it: sooner or
		later than with C at the other end.`},
	{"noticed", regexp.MustCompile(`GC [^,]*, (peer heard|then): .*, C |CG [^,]*, (heard|then): .*, C |-none .* worker self, GC [^,]*, got: waits`),
		`What the side of C says depends on what it notices first: the end of ours is quicker, or slower, than its own.`},
	{"delivers", regexp.MustCompile(`, (op|got|close): (ok\|?|whole\|?)+, C `),
		`Ours delivers where C loses the message, or ends the operation where C does not.`},
	{"ends", regexp.MustCompile(`: ` + failures + `, C (\S*\|)?(waits|none|-)`),
		`Ours ends the operation, or tells the error handler; C does not: it never ends the requests of a destroyed
		worker, and shared memory tells it of the end of a process only.`},
	{"words", regexp.MustCompile(`: ` + failures + `, C (ok\|)?` + failures + `$`),
		`It fails with either; another error is found first. 1.13 says "endpoint timeout" for a connection that the peer
		has closed, 1.22 "connection reset".`},
	{"race", regexp.MustCompile(`, (op|got|heard|peer heard|then): \S*\|`),
		`It is one or the other, as with C, by whether the end of the peer or what it has sent is found first.`},
	{"closed", regexp.MustCompile(`, then: (ok\|?)+, C `),
		`The close of an endpoint that has failed says so again in C; ours has said it by the error handler and the
		operations, and ends well.`},
}

// TestEndingReasons: each recorded difference has a reason, and each reason a difference.
func TestEndingReasons(t *testing.T) {
	table, err := readEndings(endingsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, flaw := range table.unexplained() {
		t.Error(flaw)
	}
}
