package ucp

import (
	"io"
	"strings"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
)

// printTables prints what write writes to the log, as UCX_PRINT_TRANSPORT_TABLES says.
func (c *Context) printTables(write func(io.Writer) error) {
	switch c.settings.PrintTables {
	case config.OnOffAutomatic:
		if !c.log.Enabled(log.LevelDebug) {
			return
		}
	case config.Off:
		return
	}
	var b strings.Builder
	_ = write(&b) // a builder takes it all
	for line := range strings.Lines(b.String()) {
		c.log.Print(strings.TrimSuffix(line, "\n"))
	}
}
