// Package log writes the library's messages to stderr, through zap: warnings and errors, unless
// UCX_LOG_LEVEL asks for more or less. A program with its own logger installs it for the process
// with SetHandler (slog) or SetLogger (zap), or for one context with ucp.ContextParams.Logger; that
// logger alone then decides what is printed. Levels may change at any time: SetLevel changes the
// level of the default logger, slog.LevelVar and zap.AtomicLevel those of the program's loggers.
//
// Messages about the process go to the process's logger even if contexts have other loggers:
// unknown settings, which are read before there is a context, and limits of the process
// (descriptors, mappings).
//
// A warning that could be repeated for each worker, peer or message is logged once
// (Logger.WarnOnce), or once a minute if it is about the behavior of peers.
//
// Messages of level error say that an operation or object cannot continue; warn, that something
// unexpected has happened after which everything continues; diag, that something unexpected is
// probably caused by the configuration. Level info has one line per decision, debug one per
// object, trace and below one per message or call. Messages are lower case without values;
// values are fields:
//
//	log.Debug("connected", zap.Stringer("peer", addr), zap.Int("fd", fd))
//
// Code on a fast path tests the level first, so that a disabled level costs one load and a
// comparison and allocates nothing:
//
//	if log.Enabled(log.LevelData) {
//		log.Write(log.LevelData, "sent", zap.Int("bytes", n))
//	}
package log
