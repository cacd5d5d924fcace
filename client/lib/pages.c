/* Answers that come in pages, kept together. */
#include "client/lib/internal.h"

#include <stdlib.h>
#include <string.h>

void *pages_add(struct pages *pages, void *page)
{
	pages->pages = reallocarray(pages->pages, pages->count + 1, sizeof *pages->pages);
	if (!pages->pages)
		abort();
	pages->pages[pages->count++] = page;
	return page;
}

void pages_free(struct pages *pages)
{
	for (size_t i = 0; i < pages->count; i++)
		protobuf_c_message_free_unpacked(pages->pages[i], NULL);
	free(pages->pages);
}

void *gather(void *list, size_t *count, void *more, size_t n_more)
{
	list = reallocarray(list, *count + n_more + 1, sizeof(void *));
	if (!list)
		abort();
	if (n_more > 0)
		memcpy((void **)list + *count, more, n_more * sizeof(void *));
	*count += n_more;
	return list;
}

size_t add_up(
    void *list, size_t count, int (*compare)(const void *a, const void *b), void (*add)(void *to, void *more))
{
	void **items = list;
	size_t n = 0;

	qsort(items, count, sizeof *items, compare);
	for (size_t i = 0; i < count; i++) {
		if (n > 0 && compare(&items[n - 1], &items[i]) == 0)
			add(items[n - 1], items[i]);
		else
			items[n++] = items[i];
	}
	return n;
}
