/* The access token that `reeve dev` shares with this user's other programs. */
#ifndef REEVE_CLIENT_CMD_DEV_TOKEN_H
#define REEVE_CLIENT_CMD_DEV_TOKEN_H

/* Has the manager program make a new access token for the admin, and puts it where this user's programs find it for the
 * manager's URL. A token in the environment does not count any more. Returns the token's path for dev_token_drop, or NULL after
 * an error message. */
char *dev_token_make(const char *manager_path, const char *conninfo, const char *url);

/* Removes the file, so that no other manager of this URL gets the token; NULL is allowed. */
void dev_token_drop(char *path);

#endif
