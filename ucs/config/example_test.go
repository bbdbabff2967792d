package config_test

import (
	"fmt"
	"os"

	"github.com/ucx-go/ucx/ucs/config"
)

// settings are those of a made-up transport. The tags give the name after the
// section's prefix, the default and the help text.
type settings struct {
	SegSize config.Bytes   `ucx:"SEG_SIZE" default:"8k" doc:"Size of a buffer."`
	Zcopy   config.Ternary `ucx:"ZCOPY" default:"try" doc:"Whether to send without copying."`
}

func init() {
	config.Register(config.Section{
		Name: "pigeon", Prefix: "PIGEON_", Title: "pigeon transport",
		New: func() any { return new(settings) },
	})
}

// A package declares its settings as a struct and registers it from init. What the
// environment, ucx.conf and Modify say is read with Load, as C UCX would read it.
func Example() {
	os.Setenv("UCX_PIGEON_SEG_SIZE", "64k")
	defer os.Unsetenv("UCX_PIGEON_SEG_SIZE")

	set, err := config.Read("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := set.Modify("PIGEON_ZCOPY", "no"); err != nil {
		fmt.Println(err)
		return
	}
	var s settings
	if err := set.Load("pigeon", &s); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(uint64(s.SegSize), s.Zcopy == config.No)

	value, origin, _ := set.Lookup("PIGEON_SEG_SIZE")
	fmt.Println(value, "from", origin)
	if err := set.Write(os.Stdout, "", config.PrintConfig, "pigeon"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 65536 true
	// 64k from environment (UCX_PIGEON_SEG_SIZE)
	// UCX_PIGEON_SEG_SIZE=64K
	// UCX_PIGEON_ZCOPY=n
}

// A value that cannot be parsed is an error that lists the allowed values.
func ExampleValueError() {
	set := new(config.Set)
	err := set.Modify("PIGEON_ZCOPY", "perhaps")
	fmt.Println(err)
	// Output:
	// config: UCX_PIGEON_ZCOPY="perhaps" from call: invalid syntax; expected <yes|no|try|auto>
}
