/* Writes the manager's metrics. */
#ifndef REEVE_MANAGER_SERVICE_SCRAPE_TEXT_H
#define REEVE_MANAGER_SERVICE_SCRAPE_TEXT_H

#include "manager/service/services.h"

/* The numbers of all managers together, as the database had them. */
struct scrape_fleet {
	int count;
	struct store_fleet_row *rows; /* their texts belong to them */
};

/* Copies what was read. */
void scrape_fleet_take(struct scrape_fleet *fleet, const struct store_fleet *op);
void scrape_fleet_drop(struct scrape_fleet *fleet);

/* Returns the metrics as a text, to be freed. `fleet` may be NULL. */
char *scrape_text(const struct services *services, const struct scrape_fleet *fleet, bool open_metrics);

#endif
