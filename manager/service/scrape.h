/*
 * The manager's metrics for Prometheus: AdminService.Scrape, which is also the page /metrics.
 *
 * The numbers of this manager are in memory. Those of all managers together come from the database, at most once in
 * some seconds, however many calls there are: a call in between gets what was read last. If the database does not
 * answer, they are left out.
 */
#ifndef REEVE_MANAGER_SERVICE_SCRAPE_H
#define REEVE_MANAGER_SERVICE_SCRAPE_H

#include "manager/service/services.h"

#define SCRAPE_METHOD "/reeve.v1.AdminService/Scrape"

struct scrape;

/* Binds the job "scrapes". `services` must outlive it. */
struct scrape *scrape_create(const struct services *services);

/* Frees it, after the store has been closed; NULL is allowed. */
void scrape_destroy(struct scrape *scrape);

/* AdminService.Scrape. */
rpc_method scrape_method;

#endif
