/* The access token that `reeve dev` shares with this user's other programs. */
#ifndef REEVE_CLIENT_CMD_DEV_TOKEN_H
#define REEVE_CLIENT_CMD_DEV_TOKEN_H

/* Lets the manager program create a new access token for the admin, and writes it to the file in which this user's
 * programs search the token of the manager's URL. A token in the environment is ignored from then on. Returns the
 * file's path for dev_token_drop, or NULL after an error message. */
char *dev_token_make(const char *manager_path, const char *conninfo, const char *url);

/* Prints the address of the dashboard at `http` (NULL: nothing), with a code that signs in once. `self` is the command:
 * it creates an identity for a browser, whose token the dashboard replaces when it gets the code. */
void dev_token_print_code(const char *self, const char *url, const char *token_path, const char *http);

/* Removes the file, so that no other manager of this URL gets the token; NULL is allowed. */
void dev_token_drop(char *path);

#endif
