#!/usr/bin/env bash
# The dashboard for everybody: axe-core finds nothing, everything works by keyboard, on a phone and in the dark.
# timeout 600
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/e2e/web.bash"

start_postgres
H=http://127.0.0.1:$(free_port)
start_manager manager --http "$H"
start_worker worker --name worker
fill

# All rules of axe-core, on each page, light and dark, on a desk and on a phone; and no page is wider than its window.
test_axe_finds_nothing() {
	local long
	long=$(printf 'n%.0s' {1..255})
	reeve submit nothing --queue "$long" --delay 1d >/dev/null
	reeve queue pause "$long" >/dev/null
	reeve submit nothing --queue "$long" >/dev/null
	token_manager
	browse '
		const page = await browser.open(S);
		const looks = [[1280, 800], [390, 844]].flatMap((size) => [false, true].map((dark) => [size, dark]));
		const found = [];
		const check = async (where) => {
			for (const [size, dark] of looks) {
				await page.size(...size);
				await page.dark(dark);
				const what = `${where}, ${size[0]} wide, ${dark ? "dark" : "light"}`;
				found.push(...(await page.axe(axe)).map((fault) => `${what}: ${fault}`));
				if (await page.eval("document.documentElement.scrollWidth > innerWidth")) found.push(`${what}: it scrolls sideways`);
			}
		};
		await page.see("Access token");
		await page.eval("document.body.append(document.createElement(`button`))");
		await check("a button without a name");
		assert.match(found.splice(0).join(), /button-name/);
		await page.eval("document.body.lastChild.remove()");
		await check("the sign-in");
		for (const address of pages.trim().split("\n")) {
			await page.show(`${H}/${address}`);
			await check(address);
		}
		for (const [address, button] of [["#/tasks?queue=full", "Change priority…"], ["#/workers", "Scale all…"], ["#/queues?name=full", "Stop…"]]) {
			await page.show(`${H}/${address}`);
			await page.click("button", button);
			await page.gone("Counting…");
			await check(`${address}, ${button}`);
			await page.press("Escape");
		}
		await page.size(390, 844); // and with the longest name
		for (const address of ["", "tasks", `queues?name=${long}`]) {
			await page.show(`${H}/#/${address}`);
			await page.see(long);
			if (await page.eval("document.documentElement.scrollWidth > innerWidth")) found.push(`#/${address} with a long name: it scrolls sideways`);
		}
		await page.click("button", "Pause…");
		await page.see(`Pause: queue ${long}`);
		if (await page.eval("((e) => e.scrollWidth > e.clientWidth)(document.querySelector(`dialog`))")) found.push("the dialog scrolls sideways");
		await page.press("Escape");
		await page.show(`${H}/${pages.split("\n").find((address) => address.startsWith("#/tasks/"))}`);
		if (await page.eval("[...document.querySelectorAll(`.event`)].some((e) => e.getClientRects().length > 1)")) found.push("a word of a table is broken");
		assert.deepEqual(found, []);
	' S="$S" long="$long" axe="$NPM/node_modules/axe-core/axe.min.js" pages="$PAGES"
}

# While the pages refresh themselves.
test_the_keyboard_reaches_everything_and_shows_where_it_is() {
	browse '
		const page = await browser.open(H);
		for (const address of pages.trim().split("\n")) {
			await page.show(`${H}/${address}`);
			const left = new Set(await page.eval(`[...document.querySelectorAll("a, button, input, select, summary, pre, .scroll")]
				.filter((e) => e.checkVisibility()).map(${NAME})`));
			for (let presses = 3 * left.size; left.size && presses; presses--) {
				await page.press("Tab");
				const [name, outline] = await page.eval(`[(${NAME})(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]`);
				if (left.delete(name)) assert.equal(outline, "solid", `${address}: ${name}`);
			}
			assert.deepEqual([...left], [], address);
			const times = await page.eval(`[...document.querySelectorAll("time")].map((e) => e.title)`);
			for (const time of times) assert.match(time, /\d{4}.*\d:\d\d:\d\d.* \(\.\d{6} s\)$/, address);
		}
	' pages="$PAGES" NAME='(e) => [e.localName, e.id, e.getAttribute("href"), e.innerText?.slice(0, 30), e.ariaLabel, e.value].join(" ")'
}

test_dialogs_keep_the_focus_and_give_it_back() {
	browse '
		const page = await browser.open(H);
		const focused = () => page.eval("document.activeElement.innerText");
		let dialogs = 0;
		for (const address of pages.trim().split("\n")) {
			await page.show(`${H}/${address}`);
			for (const button of await page.eval(`[...document.querySelectorAll("main button")].map((b) => b.innerText).filter((text) => text.endsWith("…"))`)) {
				await page.eval(`${await page.find("main button", button)}.focus()`);
				await page.press(dialogs++ % 2 ? "Enter" : "Space");
				await page.find("dialog[open]");
				await page.gone("Counting…");
				for (let i = 0; i < 6; i++) {
					assert.ok(await page.eval("document.activeElement === document.body || document.activeElement.closest(`dialog`) !== null"), `${address}: ${button}`);
					await page.press("Tab");
				}
				await page.press("Escape");
				await page.until("!document.querySelector(`dialog`)");
				assert.equal(await focused(), button, address);
			}
		}
		assert.ok(dialogs >= 20, `${dialogs} dialogs`);
		await page.show(`${H}/#/queues?name=full`);
		await page.eval(`${await page.find("main button", "Pause…")}.focus()`);
		await page.press("Enter");
		await page.gone("Counting…");
		while (await focused() !== "Pause") await page.press("Tab");
		await page.press("Enter");
		await page.see("The queue is paused.");
		assert.equal(await focused(), "Close");
		await page.press("Enter");
		await page.until("!document.querySelector(`dialog`)");
		assert.equal(await focused(), "Pause…");
	' pages="$PAGES"
}

# What a page shows again leaves the focus, the text in an input and what is folded open as they are.
test_a_refresh_leaves_the_focus_where_it_is() {
	id=$(reeve submit sh "until [ -e '$DIR/go' ]; do sleep 0.05; done" --queue kept --delay 1d)
	browse '
		const page = await browser.open(`${H}/#/tasks?queue=kept`);
		const submit = () => fetch(`${H}/reeve.v1.TaskService/Submit`, { method: "POST", headers: { "content-type": "application/json" },
			body: JSON.stringify({ tasks: [{ queue: "kept", type: "nothing", delayMs: "86400000" }] }) }).then((r) => r.json()).then((r) => r.tasks[0].id);
		const focused = (property = "innerText") => page.eval(`document.activeElement.${property}`);
		await page.eval(`${await page.find("main td a", id)}.focus()`);
		await page.find("main td a", await submit());
		assert.equal(await focused(), id);
		await page.click("summary");
		await page.type("#filter-key", "half a k");
		await page.find("main td a", await submit());
		assert.equal(await focused("id"), "filter-key");
		assert.equal(await focused("value"), "half a k");
		assert.ok(await page.eval("document.querySelector(`details`).open"));
		await page.show(`${H}/#/tasks/${id}`);
		await page.eval(`${await page.find("main button", "Run now…")}.focus()`);
		await page.press("Enter");
		await page.gone("Counting…");
		await page.click("dialog button", "Run now");
		await page.see("1 task changed.");
		await page.find("h1 .status", "executing");
		await page.press("Enter");
		await page.until("!document.querySelector(`dialog`)");
		assert.equal(await focused("localName"), "h1", "its button is gone");
		await page.eval(`${await page.find("main button", "Cancel…")}.focus()`);
		writeFileSync(go, "");
		await page.find("h1 .status", "completed");
		assert.equal(await focused("localName"), "h1");
		await page.show(`${H}/#/tasks/${await submit()}`);
		await page.eval(`${await page.find("main button", "Discard…")}.focus()`);
		await fetch(`${H}/reeve.v1.QueueService/Control`, { method: "POST", headers: { "content-type": "application/json", "idempotency-key": "p" },
			body: JSON.stringify({ queue: "kept", action: "QUEUE_ACTION_PAUSE" }) });
		await page.see("The queue kept is paused.");
		assert.equal(await focused(), "Discard…");
	' id="$id" go="$DIR/go"
}

run_tests
