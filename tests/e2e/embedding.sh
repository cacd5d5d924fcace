#!/usr/bin/env bash
# Programs of others that use the libraries.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

# As docs/client.md and docs/worker.md say.
story_a_cmake_project_uses_the_libraries() {
	mkdir "$DIR/mine"
	cat >"$DIR/mine/CMakeLists.txt" <<-END
		cmake_minimum_required(VERSION 3.25)
		project(mine C)
		add_subdirectory($TOP reeve)
		add_executable(mine mine.c)
		target_link_libraries(mine PRIVATE reeve_client)
	END
	cat >"$DIR/mine/mine.c" <<-END
		#include <reeve/client.h>
		#include <stdio.h>

		int main(void)
		{
			struct reeve_failure failure;
			struct reeve_client *client = reeve_client_create(&(struct reeve_client_options){0}, &failure);
			struct reeve_submitted submitted;
			if (!client || !reeve_submit(client, &(struct reeve_task_spec){.type = "t"}, 1, NULL, &submitted, &failure))
				return 1;
			printf("%lld\n", (long long)submitted.id);
			reeve_client_destroy(client);
			return 0;
		}
	END
	cmake -S "$DIR/mine" -B "$DIR/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug >"$DIR/log/cmake.log" 2>&1 || fail "$(tail -n 20 "$DIR/log/cmake.log")"
	ninja -C "$DIR/build" mine >"$DIR/log/ninja.log" 2>&1 || fail "$(tail -n 20 "$DIR/log/ninja.log")"
	start_postgres
	start_manager
	expect_eq 1 "$(find "$DIR/build" -name mine -type f -executable -exec {} \;)"
	expect_eq "$(sql 'select id from tasks')" 1
}

run_stories
