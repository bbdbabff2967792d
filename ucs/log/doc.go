// Package log writes what the library has to say to people: to stderr, through
// zap, as much as UCX_LOG_LEVEL asks for, and nothing unless it asks. A program
// that has a logger of its own hands it over with SetLogger; then that logger
// decides alone.
//
// Levels mean: error, cannot go on; warn, odd but goes on; diag, odd and probably
// a matter of set-up; info, one line per decision; debug, one per object; trace
// and what follows, one per message or call. Messages are lower case without
// values; values are fields:
//
//	log.Debug("connected", zap.Stringer("peer", addr), zap.Int("fd", fd))
//
// Where a message is made on a hot path, test first, so that a disabled level
// costs one load and a comparison and allocates nothing:
//
//	if log.Enabled(log.LevelData) {
//		log.Write(log.LevelData, "sent", zap.Int("bytes", n))
//	}
package log
