package mailbox

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
)

func init() {
	config.Register(config.Section{
		Name:   name,
		Prefix: "MAILBOX_",
		Title:  "mailbox transport",
		New:    func() any { return new(settings) },
		Check:  func(s *config.Set) error { _, err := loadSettings(s); return err },
	})
}

type settings struct {
	Failure log.Level    `ucx:"FAILURE" default:"DIAG" doc:"Log level of failures of endpoints over mailbox without an error handler."`
	SegSize config.Bytes `ucx:"SEG_SIZE" default:"8k" doc:"Largest message."`
}

func loadSettings(cfg *config.Set) (s settings, err error) {
	if err := cfg.Load(name, &s); err != nil {
		return s, err
	}
	if s.SegSize < 64 || s.SegSize > 1<<20 {
		return s, fmt.Errorf("mailbox: UCX_MAILBOX_SEG_SIZE is %v, not 64 bytes to 1 MB: %w", s.SegSize, ucs.ErrInvalidParam)
	}
	return s, nil
}
