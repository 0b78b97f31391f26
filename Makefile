# notify_claim: build, install and test with PGXS.
#
#   make && make install && make installcheck     as usual, PG_CONFIG= honoured
#   make demo, make test                          everything on a fresh machine

top := $(dir $(firstword $(MAKEFILE_LIST)))

EXTENSION = notify_claim
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(top)$(EXTENSION).control)

MODULE_big = $(EXTENSION)
PGFILEDESC = "notify_claim - exactly-once handling of at-least-once notifications"
SOURCES := $(notdir $(wildcard $(top)src/*.c))
OBJS = $(SOURCES:%.c=src/%.o)
LOCAL_HEADERS := $(wildcard $(top)src/*.h)
DATA = sql/$(EXTENSION)--$(EXTVERSION).sql
SHLIB_LINK += -lcrypto
# A server that was built with gcc hands gcc's optimization flags to clang.
PG_CFLAGS = $(if $(findstring clang,$(CC)),-Wno-ignored-optimization-argument -Wno-unknown-warning-option -Wno-ignored-attributes)

REGRESS := $(sort $(basename $(notdir $(wildcard $(top)test/sql/*.sql))))
REGRESS_OPTS = --inputdir=$(srcdir)/test --encoding=UTF8 --no-locale
ISOLATION := $(sort $(basename $(notdir $(wildcard $(top)test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=$(srcdir)/test --outputdir=.
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
EXTRA_CLEAN = tmp_inst

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifneq ($(wildcard $(PGXS)),)
include $(PGXS)
else
# The targets at the end install what they need; the others cannot.
.PHONY: all install installcheck uninstall clean
all install installcheck uninstall clean:
	$(error $(PG_CONFIG) knows no PGXS: install the server's development package or pass PG_CONFIG=)
endif

# Neither headers nor folders are tracked by PGXS; the folder is missing where
# the build runs outside the source tree.
$(OBJS): $(LOCAL_HEADERS) | objdirs
$(OBJS:.o=.bc): $(LOCAL_HEADERS) | objdirs

.PHONY: objdirs
objdirs:
	@mkdir -p $(sort $(dir $(OBJS)))

# pg_regress looks for expected/ in its output folder before its input folder.
ifdef VPATH
installcheck: expected-link
.PHONY: expected-link
expected-link:
	ln -sfn $(abspath $(srcdir))/expected expected
endif

# All of these work in a temporary folder of their own and leave nothing behind.
#   make demo LOG=file.jsonl SETUP=file.sql   replays your own log (head of test/demo)
#   make bench QUICK=1                        fewer cells (head of test/bench/call/run)
#   make bench-memory CALLS=100000            fewer calls (head of test/bench/memory)
#   make bench-digest ROUNDS=400              more rounds (head of test/bench/digest)
#   make bench-trigger ROUNDS=200             more rounds (head of test/bench/trigger)
#   make bench-outbox QUICK=1                 fewer cells (head of test/bench/outbox)
#   make bench-statistics ROUNDS=100          more rounds (head of test/bench/statistics)
#   make test-monitoring PICTURE=file.png     and a picture (head of test/monitoring/run)
#   make fuzz SECONDS=600                     longer (head of test/fuzz/run)
#   make histories HISTORIES=1000000          more of them (head of test/histories)
#   make outbox-chaos MESSAGES=1000000        more of them (head of test/outbox_chaos)
.PHONY: demo test test-matrix test-examples test-monitoring bench bench-memory bench-digest bench-trigger bench-outbox bench-statistics
.PHONY: fuzz histories outbox-chaos indent indent-check
demo:
	@exec $(top)test/demo $${LOG:+"$$LOG"}
test:
	@$(top)test/run
test-matrix:
	@$(top)test/matrix
test-examples:
	@$(top)test/examples/run
test-monitoring:
	@exec $(top)test/monitoring/run $${PICTURE:+"$$PICTURE"}
bench:
	@exec $(top)test/bench/call/run $${QUICK:+quick}
bench-memory:
	@exec $(top)test/bench/memory $${CALLS:+"$$CALLS"}
bench-digest:
	@exec $(top)test/bench/digest $${ROUNDS:+"$$ROUNDS"}
bench-trigger:
	@exec $(top)test/bench/trigger $${ROUNDS:+"$$ROUNDS"}
bench-outbox:
	@exec $(top)test/bench/outbox $${QUICK:+quick}
bench-statistics:
	@exec $(top)test/bench/statistics $${ROUNDS:+"$$ROUNDS"}
fuzz:
	@exec $(top)test/fuzz/run $(SECONDS)
histories:
	@exec $(top)test/histories $${HISTORIES:+"$$HISTORIES"}
outbox-chaos:
	@exec $(top)test/outbox_chaos $${MESSAGES:+"$$MESSAGES"}
indent:
	@$(top)test/indent
indent-check:
	@$(top)test/indent --check
