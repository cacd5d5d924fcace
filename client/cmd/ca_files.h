/* The files of ca.c. */
#ifndef REEVE_CLIENT_CMD_CA_FILES_H
#define REEVE_CLIENT_CMD_CA_FILES_H

#include "common/error.h"

#include <openssl/x509.h>

/* Returns the path FOLDER/NAME.END. The caller must free it. */
char *ca_path(const char *folder, const char *name, const char *end);

/* Opens a folder and waits for its lock; returns the descriptor that holds it, or -1. `create`: makes the folder if it
 * does not exist, readable to its owner only. */
int ca_lock(const char *folder, bool create, struct reeve_error *error);

/* Read a PEM file; NULL if it cannot. */
X509 *ca_read_certificate(const char *path, struct reeve_error *error);
EVP_PKEY *ca_read_key(const char *path, struct reeve_error *error);
X509_CRL *ca_read_list(const char *path, struct reeve_error *error);

/* Write a PEM file. `replace`: it may exist, and is replaced as a whole; otherwise it must not. A key's file has mode
 * 0600, others 0644. */
bool ca_write_certificate(const char *path, const X509 *certificate, bool replace, struct reeve_error *error);
bool ca_write_key(const char *path, const EVP_PKEY *key, bool replace, struct reeve_error *error);
bool ca_write_list(const char *path, const X509_CRL *list, bool replace, struct reeve_error *error);

/* Returns whether a file's name ends with ".pem". */
bool ca_is_pem(const char *name);

/* Calls a function with each certificate of issued/. One that cannot be read is logged and left out. Returns how many
 * these are; -1 with *error set if the folder cannot be read. */
int ca_each_issued(
    const char *folder, void (*visit)(void *arg, const X509 *certificate), void *arg, struct reeve_error *error);

/* Sets *error from an errno: "PATH: No such file or directory". Always returns false. */
bool ca_failed(const char *path, struct reeve_error *error);

#endif
