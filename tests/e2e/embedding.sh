#!/usr/bin/env bash
# Other projects' programs that use the libraries.
. "$(dirname "$0")/lib.sh"

# Expects a library to export only functions that its header declares.
expect_sealed() { # NAME FILE [NM-OPTION]: NAME is client or worker
	nm -gj --defined-only ${3:+"$3"} "$2" | grep -v ':$' | grep . | sort -u >"$DIR/shown"
	grep -oE '\breeve_[a-z_]+\(' "$TOP/$1/include/reeve/$1.h" | tr -d '(' | sort -u >"$DIR/declared"
	expect_eq '' "$(comm -23 "$DIR/shown" "$DIR/declared")" "shown by $2, but not in its header"
	expect [ "$(wc -l <"$DIR/shown")" -ge 10 ]
}

build_mine() { # [CMAKE-OPTION…]
	cmake -S "$DIR/mine" -B "$DIR/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug "$@" >"$DIR/log/cmake.log" 2>&1 || fail "$(tail -n 20 "$DIR/log/cmake.log")"
	ninja -C "$DIR/build" mine >"$DIR/log/ninja.log" 2>&1 || fail "$(tail -n 20 "$DIR/log/ninja.log")"
}

# As documented in docs/client.md and docs/worker.md. The program's own functions have names that the libraries use
# internally.
test_a_cmake_project_uses_the_libraries() {
	mkdir "$DIR/mine"
	cat >"$DIR/mine/CMakeLists.txt" <<-END
		cmake_minimum_required(VERSION 3.25)
		project(mine C)
		add_subdirectory($TOP reeve)
		add_executable(mine mine.c)
		target_link_libraries(mine PRIVATE reeve_client reeve_worker)
		set_target_properties(mine PROPERTIES ENABLE_EXPORTS ON)
	END
	cat >"$DIR/mine/mine.c" <<-END
		#include <reeve/client.h>
		#include <reeve/worker.h>
		#include <stdio.h>
		#include <stdlib.h>

		#define OURS(name) void name(void) { puts("the library called our " #name); abort(); }
		OURS(fail) OURS(allocate) OURS(error_set) OURS(log_line) OURS(log_setup) OURS(batch_create) OURS(retry_pause_ms)
		OURS(uuid7_make) OURS(clock_monotonic_ms) OURS(handler_add) OURS(rpc_client_create) OURS(rpc_conn_create)
		OURS(utf8_valid) OURS(name_problem) OURS(names_add)

		int main(void)
		{
			struct reeve_worker *worker = reeve_worker_create(&(struct reeve_worker_options){.concurrency = -1});
			if (!reeve_worker_error(worker) || reeve_worker_run(worker) != 2)
				return 3;
			reeve_worker_destroy(worker);
			struct reeve_failure failure;
			struct reeve_client *client = reeve_client_create(&(struct reeve_client_options){0}, &failure);
			Reeve__V1__SubmittedTask submitted;
			if (!client || !reeve_submit(client, &(Reeve__V1__TaskSpec){.type = "t"}, 1, NULL, &submitted, &failure))
				return 1;
			printf("%lld\n", (long long)submitted.id);
			reeve_client_destroy(client);
			return 0;
		}
	END
	start_postgres
	start_manager
	build_mine
	expect_sealed client "$DIR/build/reeve/client/libreeve_client.a"
	expect_sealed worker "$DIR/build/reeve/worker/libreeve_worker.a"
	expect_eq 1 "$(find "$DIR/build" -name mine -type f -executable -exec {} \;)"
	build_mine -DBUILD_SHARED_LIBS=ON
	expect_sealed client "$DIR/build/reeve/client/libreeve_client.so" -D
	expect_sealed worker "$DIR/build/reeve/worker/libreeve_worker.so" -D
	expect_eq 2 "$(find "$DIR/build" -name mine -type f -executable -exec {} \;)"
	expect_eq '1 2' "$(sql 'select id from tasks order by 1' | xargs)"
}

# The result of `cmake --install` is complete and can be moved: programs can be built with it alone, and its own
# programs run.
test_installed_libraries_and_programs_work_wherever_they_are() {
	cmake --install "$(dirname "$REEVE_BIN")" --prefix "$DIR/staged" >"$DIR/log/install.log" 2>&1 || fail "$(tail -n 20 "$DIR/log/install.log")"
	mv "$DIR/staged" "$DIR/prefix"
	for file in man/man1/reeve-submit.1 man/man1/reeve-manager.1 bash-completion/completions/reeve zsh/site-functions/_reeve \
		fish/vendor_completions.d/reeve.fish; do
		expect [ -s "$DIR/prefix/share/$file" ]
	done
	pc=$(find "$DIR/prefix" -name reeve-client.pc)
	export PKG_CONFIG_PATH
	PKG_CONFIG_PATH=$(dirname "$pc")
	flags=(-std=gnu11 '-fsanitize=address,undefined') # as the tests' libraries are
	mkdir "$DIR/mine"
	for library in client worker; do
		echo "#include <reeve/$library.h>" >"$DIR/mine/header.c"
		expect gcc -fsyntax-only -Wall -Wextra -Werror -std=c11 $(pkg-config --cflags reeve-$library) "$DIR/mine/header.c"
	done
	for example in "$TOP"/examples/client/*.c; do
		expect gcc "${flags[@]}" "$example" -o "$DIR/mine/$(basename "$example" .c)" $(pkg-config --cflags --libs reeve-client)
	done
	for example in "$TOP"/examples/worker/*.c; do
		expect gcc "${flags[@]}" "$example" -o "$DIR/mine/$(basename "$example" .c)" $(pkg-config --cflags --libs reeve-worker reeve-client)
	done
	expect gcc -shared -fPIC "$TOP/examples/plugin/greet.c" -o "$DIR/mine/greet.so" $(pkg-config --cflags reeve-worker)
	expect_eq 'batch greet.so hello more_time planner remarks schedule' "$(cd "$DIR/mine" && find . -type f -executable -printf '%P\n' | LC_ALL=C sort | xargs)"
	cp "$TOP/examples/worker/remarks.c" "$DIR/mine"
	cat >"$DIR/mine/CMakeLists.txt" <<-END
		cmake_minimum_required(VERSION 3.25)
		project(mine C)
		find_package(reeve 0.1 REQUIRED)
		add_compile_options(-fsanitize=address,undefined)
		add_link_options(-fsanitize=address,undefined)
		add_executable(mine remarks.c)
		target_link_libraries(mine PRIVATE reeve::worker)
	END
	build_mine -DCMAKE_PREFIX_PATH="$DIR/prefix"

	start_postgres
	PORT[manager]=$(free_port)
	REEVE_BIN=$DIR/prefix/bin start_manager
	start worker "$DIR/build/mine" # it finds the manager by REEVE_MANAGER
	expect_match 'batch 1: 2 completed, 1 failed' "$("$DIR/mine/batch" "$REEVE_MANAGER" book '{"room": 7}' '{"room": 13}' '{}')"
	expect_eq '1 2 3' "$("$DIR/prefix/bin/reeve" list --json | jq .id | sort -n | xargs)"
	expect [ -s "$DIR/prefix/share/reeve/proto/reeve/v1/task.proto" ]
}

run_tests
