// Package account limits the memory and the endpoints that peers make one worker hold. It counts
// both by peer, detects that a limit is reached, and chooses which connection is then evicted: the
// connection is dropped, and what the worker holds for it is freed. The package does no I/O, and
// has no notion of messages and endpoints: package ucp reports what is charged, and carries out the
// evictions. The totals of the process, which all workers share, and the identification of the
// sources are in package ledger.
//
// # Accounts and holders
//
// A Holder is the record of a connection whose peer made the worker hold something. An Account is
// charged for all holders of one source: one IP address, one /64 network of IPv6, one user of this
// machine, or all peers whose transport cannot tell them apart. Limits compare accounts and not
// connections, so a peer with many connections gets no more than a peer with one. A holder gets its
// account with the first charge, because the kernel has to be asked for the user of a local peer,
// and most connections that this side has opened are never charged. A Table holds all accounts of
// one worker.
//
// Three kinds of things are charged:
//
//   - bytes of messages that no receive has matched (Holder.Charge, AddBytes and SubBytes), with
//     Limits.Bytes for the process;
//   - endpoints that peers have opened and the application has not claimed (MayOpen, AddEndpoint,
//     SubEndpoint), with Limits.Endpoints for the process;
//   - bytes of answers and replies that a peer has not read (AddReplies and SubReplies), with
//     Limits.StopReplies and Limits.DropReplies for each connection.
//
// When a connection ends (SetEnded), its charges remain until the worker frees what it holds, so a
// peer gains nothing by closing connections. The holder is detached when nothing is charged to it
// any more.
//
// # Charging in advance
//
// A message is charged to its account with two additions and no atomic operation. The account has
// charged the ledger in advance for more than it holds: for an eighth more, but at least 64 KiB and
// at most 1 MiB or 1/256 of the limit. The limit is checked only when this reserve is used up. A
// part of the reserve is returned when the account holds much less, and all of it when the process
// is at the limit. Answers and replies are charged to the ledger in steps of 64 KiB.
//
// # At a limit of the process
//
//   - Unknown accounts (ledger.Account.IsUnknown), to whose peers the application has no endpoint,
//     are evicted first. No known account is evicted as long as an unknown account holds anything.
//   - Among the unknown accounts, or among the known ones if there are no unknown ones, the
//     offender is the account that holds most. If the offender holds more than the requesting
//     account would hold after its request, the offender's largest holder is evicted: its
//     connection is dropped, and what the worker holds for the connection is freed.
//   - Otherwise the request is refused, and the connection that made it is dropped. An account that
//     holds less than an equal share is not refused: for it the limit may be exceeded by up to a
//     sixteenth (overshoot), so that amounts that cannot be evicted do not lock it out.
//
// Peers that cannot be told apart share one holder (Table.unnamed), which is never evicted.
// Requests of its account are refused instead.
//
// # At a limit of replies
//
// When more than Limits.StopReplies bytes of answers and replies wait because the peer does not
// read them, the worker stops reading the peer's connection until half of them are left. At
// Limits.DropReplies bytes it drops the connection. Replies that complete only when another message
// of the peer arrives (Holder.AwaitingPeerBytes) do not count for StopReplies, because that message could
// not arrive while the connection is not read. While an account has unread replies of more than a
// sixteenth of Limits.Bytes, or the process of more than an eighth, the lower limits of 256 KiB and
// 1 MiB apply.
//
// # Goroutines
//
// A table with its accounts and holders belongs to the goroutine that owns the worker. Only that
// goroutine can evict a holder. If the offender is a peer of another worker, the table asks its
// siblings, the tables of the other workers, to evict, and meanwhile uses the overshoot. Only two
// parts of a sibling may be used by another goroutine: Host.Wake, after which the sibling's worker
// calls Reclaim, and the flag that RoomWanted reports. The ledger has its own synchronization.
package account
