// Package log writes what the library has to say to people: to stderr, through
// zap, warnings and errors unless UCX_LOG_LEVEL asks for more or less. A program
// that has a logger of its own hands it over, for the process with SetHandler (slog) or
// SetLogger (zap), for one context with ucp.ContextParams.Logger; then that logger
// decides alone. Levels may change at any time: SetLevel for the default logger,
// slog.LevelVar and zap.AtomicLevel for those of the program.
//
// What belongs to the process goes to the process's logger even if contexts have others:
// settings that nothing knows, which are read before there is a context, and limits of
// the process (descriptors, mappings).
//
// A warning that could come again with each worker, peer or message is logged once
// (Logger.WarnOnce), or once a minute if it is about what peers do.
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
