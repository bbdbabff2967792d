package main

import (
	"context"
	"log"
)

func Example() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: hello, over self
}
