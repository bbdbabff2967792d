# Everything but the race run is built without cgo; `make race` turns it on for
# test binaries only, because the race detector needs it.
export CGO_ENABLED := 0

GO       ?= go
FUZZTIME ?= 60s
SIEGE    ?= 10m
TIME     ?= 1m
ROUNDS   ?= 15
RATIOS   ?= .
ROWS     ?= .
# Further C UCX installations to test and measure against, as prefixes: /a:/b.
# Without it, the distribution's.
export CPEERS

.PHONY: build demo test unit race net simulation cross interop test-rxe test-rxe-long test-mlx5 selftest sim siege bench bench-insn bench-rxe fuzz lint clean

build:
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/... ./uct/ib/cmd/... ./examples/...

# Two processes exchange tagged messages over every transport of this machine.
demo:
	@echo 'demo: compiling it, which takes a minute or two for the first time'
	@$(GO) build -o bin/demo ./examples/demo
	@bin/demo

# Installs what the tests need, then runs every suite.
test:
	@scripts/test

# The suites of `make test`, one by one, without the installation.
unit race net simulation cross interop:
	@scripts/test $@

# The tests that need an RDMA device: here if there is soft-RoCE or VERBS_DEVICE
# names a device, else in a virtual machine. Installs what that needs.
test-rxe:
	@scripts/test-rxe

test-rxe-long:
	@scripts/test-rxe -long

# The provider of mlx5 against C's libmlx5, on adapters that are made up: what it
# writes, byte for byte, and which tests notice mutants of it; and C's programs and ours on
# all of these. `make test` has that too, but a mutant that was noticed is shown to no more
# tests, and the adapters share the programs.
test-mlx5:
	@scripts/setup || exit 1; REQUIRE_TEST_TOOLS=1 MLX5_LONG=1 $(GO) test -count=1 -v -timeout 60m ./uct/ib/verbs/internal/mlx5/oracle ./uct/ib/cmd/rdmasim

# A report of an RDMA device of this machine: make selftest DEVICE=mlx5_0. It installs
# nothing.
selftest:
	@scripts/selftest '$(DEVICE)'

# Random programs on a simulated cluster, for TIME, from the seed SEED on (the time, if none is
# given). A program that fails is printed, and kept as seed-N.txt.
sim:
	@scripts/sim $(TIME) $(SEED)

# Attackers of all kinds against a, beside a good client, for SIEGE.
siege:
	@SIEGE=$(SIEGE) $(GO) test -count=1 -timeout 24h -run '^TestSiege$$' -v ./interop

# Ratios to the C tool, by turns with it: the first of CPEERS, or the
# distribution's, with the change since the record in testdata/bench. RATIOS
# selects rows: make bench RATIOS=posix ROUNDS=5. RECORD=1 keeps them.
bench:
	@$(GO) test -count=1 -timeout 60m -run '^TestRatio$$' -v ./interop -rounds $(ROUNDS) -ratios '$(RATIOS)' $(if $(RECORD),-record)

# Instructions of an operation, counted exactly, beside C's: of the first of CPEERS, or the
# distribution's. It fails if an operation has more than recorded in testdata/bench. ROWS selects
# operations: make bench-insn ROWS='posix tag'. FUNCS=1 shows the instructions by function.
# RECORD=1 keeps the numbers of the selected ones.
bench-insn:
	@$(GO) test -count=1 -timeout 30m -run '^TestInstructions$$' -v ./interop -insn '$(ROWS)' $(if $(FUNCS),-funcs) $(if $(RECORD),-record)

# Ratios of ib_perftest to perftest, and of UCX over RDMA to C's, where test-rxe runs.
bench-rxe:
	@scripts/bench-rxe $(ROUNDS) '$(RATIOS)'

# KEEP=1 adds what reaches new code to the seeds in testdata/fuzz.
fuzz:
	@scripts/fuzz $(if $(KEEP),-keep) $(FUZZTIME)

lint:
	@scripts/lint

clean:
	rm -rf bin
