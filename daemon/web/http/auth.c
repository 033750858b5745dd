/* SPDX-License-Identifier: MIT */

#include "web/http/auth.h"

#include "base/util/clock.h"
#include "base/util/log.h"
#include "web/http/basic.h"
#include "web/http/password-limit.h"
#include "web/http/password-worker.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Right passwords remembered. With more users than that, some passwords are checked again and again. */
#define REMEMBERED 64

#define KEY_SIZE 32
#define MARK_SIZE 32

/* A keyed hash of a user name, the password, and the hash of crypt(3) that it has to fit. */
struct mark {
	uint8_t bytes[MARK_SIZE];
};

struct pending {
	uint64_t number;
	struct mark mark;
	struct peer peer;
	bool known; /* the user exists */
	bool stale; /* the users have changed, and no request has waited for it since */
};

struct auth {
	const struct users *users; /* NULL: no password is required */
	struct password_worker *worker;
	auth_done_t done;
	void *userdata;
	uint8_t key[KEY_SIZE];
	struct mark remembered[REMEMBERED];
	size_t nr_remembered, next_remembered;
	struct pending pending[PASSWORD_QUEUE];
	size_t nr_pending;
	struct rate_limit limit;
};

/* user NULL: there is no user with that name. */
static int mark_make(const struct auth *auth, const struct basic *basic, const struct user *user, struct mark *ret)
{
	gnutls_hmac_hd_t hmac;

	if (gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, auth->key, sizeof(auth->key)) < 0)
		return -ENOMEM;
	/* None of them contains a NUL, so that it separates them. */
	(void)gnutls_hmac(hmac, basic->name, strlen(basic->name) + 1);
	(void)gnutls_hmac(hmac, basic->password, strlen(basic->password) + 1);
	(void)gnutls_hmac(hmac, user ? user->hash : "", user ? strlen(user->hash) : 0);
	gnutls_hmac_deinit(hmac, ret->bytes);
	return 0;
}

static bool mark_is_same(const struct mark *a, const struct mark *b)
{
	return gnutls_memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool mark_is_remembered(const struct auth *auth, const struct mark *mark)
{
	bool found = false;

	for (size_t i = 0; i < auth->nr_remembered; i++)
		found |= mark_is_same(&auth->remembered[i], mark);
	return found;
}

static void mark_remember(struct auth *auth, const struct mark *mark)
{
	auth->remembered[auth->next_remembered] = *mark;
	auth->next_remembered = (auth->next_remembered + 1) % REMEMBERED;
	if (auth->nr_remembered < REMEMBERED)
		auth->nr_remembered++;
}

static struct pending *pending_find(struct auth *auth, const struct mark *mark)
{
	for (size_t i = 0; i < auth->nr_pending; i++)
		if (mark_is_same(&auth->pending[i].mark, mark))
			return &auth->pending[i];
	return NULL;
}

static enum auth_verdict refuse_peer(const struct peer *peer)
{
	char text[PEER_TEXT_MAX];

	log_debug("too many wrong passwords from %s", peer_text(peer, text));
	return AUTH_TOO_MANY;
}

/* For an unknown name some user's hash is checked as well, so that the time does not tell which names exist. */
static enum auth_verdict submit_password(struct auth *auth, const struct basic *basic, const struct user *user,
					 const struct mark *mark, const struct peer *peer, uint64_t *ret_number)
{
	int r;

	if (!rate_limit_add(&auth->limit, peer, clock_monotonic_ns()))
		return refuse_peer(peer);
	r = auth->nr_pending == PASSWORD_QUEUE ?
		    -EAGAIN :
		    password_worker_submit(auth->worker, basic->password, (user ?: &auth->users->items[0])->hash,
					   ret_number);
	if (r < 0) {
		rate_limit_undo(&auth->limit, peer);
		return r == -E2BIG ? AUTH_WRONG : AUTH_BUSY;
	}
	auth->pending[auth->nr_pending++] = (struct pending){
		.number = *ret_number,
		.mark = *mark,
		.peer = *peer,
		.known = user,
	};
	return AUTH_WAIT;
}

static enum auth_verdict credentials_check(struct auth *auth, const struct basic *basic, const struct peer *peer,
					   uint64_t *ret_number)
{
	const struct user *user = users_find(auth->users, basic->name);
	struct pending *pending;
	struct mark mark;

	if (mark_make(auth, basic, user, &mark) < 0)
		return AUTH_BUSY;
	if (mark_is_remembered(auth, &mark))
		return AUTH_GOOD;
	pending = pending_find(auth, &mark);
	if (!pending)
		return submit_password(auth, basic, user, &mark, peer, ret_number);
	pending->stale = false;
	*ret_number = pending->number;
	return AUTH_WAIT;
}

enum auth_verdict auth_check(struct auth *auth, const char *header, const struct peer *peer, uint64_t *ret_number)
{
	enum auth_verdict verdict;
	struct basic basic;

	if (!auth->users)
		return AUTH_GOOD;
	if (!header || basic_parse(header, &basic) < 0)
		return AUTH_WRONG;
	verdict = credentials_check(auth, &basic, peer, ret_number);
	basic_wipe(&basic);
	return verdict;
}

static void on_checked(void *userdata, uint64_t number, bool same)
{
	struct auth *auth = userdata;
	struct pending pending;
	size_t i = 0;

	while (i < auth->nr_pending && auth->pending[i].number != number)
		i++;
	if (i == auth->nr_pending)
		return;
	pending = auth->pending[i];
	auth->pending[i] = auth->pending[--auth->nr_pending];
	same = same && pending.known;
	if (same) {
		mark_remember(auth, &pending.mark);
		rate_limit_undo(&auth->limit, &pending.peer);
	} else {
		char text[PEER_TEXT_MAX];

		log_fields(&(struct log_field){ "CLIENT", peer_text(&pending.peer, text) }, 1, LOG_NOTICE,
			   "HTTP: a wrong name or password from %s", text);
	}
	if (!pending.stale)
		auth->done(auth->userdata, number, same ? AUTH_GOOD : AUTH_WRONG);
}

void auth_set_users(struct auth *auth, const struct users *users)
{
	auth->users = users;
	for (size_t i = 0; i < auth->nr_pending; i++)
		auth->pending[i].stale = true;
}

int auth_new(struct auth **ret, sd_event *loop, auth_done_t done, void *userdata)
{
	_cleanup_(auth_freep) struct auth *auth = calloc(1, sizeof(*auth));
	int r;

	if (!auth)
		return -ENOMEM;
	auth->done = done;
	auth->userdata = userdata;
	if (getrandom(auth->key, sizeof(auth->key), 0) != (ssize_t)sizeof(auth->key))
		return -EIO;
	r = password_worker_new(&auth->worker, loop, on_checked, auth);
	if (r < 0)
		return r;
	*ret = steal_ptr(auth);
	return 0;
}

struct auth *auth_free(struct auth *auth)
{
	if (!auth)
		return NULL;
	password_worker_free(auth->worker);
	explicit_bzero(auth, sizeof(*auth));
	free(auth);
	return NULL;
}
