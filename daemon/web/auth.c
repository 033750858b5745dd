/* SPDX-License-Identifier: MIT */

#include "web/auth.h"

#include "util/log.h"
#include "web/basic.h"
#include "web/hasher.h"
#include "web/penalty.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Right passwords that are remembered: with more users than that, some are hashed again. */
#define REMEMBERED 64

#define KEY_SIZE 32
#define MARK_SIZE 32

/* A keyed hash of a name, its password, and the hash that is to fit. */
struct mark {
	uint8_t bytes[MARK_SIZE];
};

struct pending {
	uint64_t number;
	struct mark mark;
	struct peer peer;
	bool known; /* the user exists */
	bool stale; /* the users have changed, and it was not asked for since */
};

struct auth {
	const struct users *users; /* NULL: everybody */
	struct hasher *hasher;
	auth_done_t done;
	void *userdata;
	uint8_t key[KEY_SIZE];
	struct mark remembered[REMEMBERED];
	size_t nr_remembered, next_remembered;
	struct pending pending[HASHER_QUEUE];
	size_t nr_pending;
	struct penalty penalty;
};

/* user NULL: there is none of that name. */
static int make_mark(const struct auth *auth, const struct basic *basic, const struct user *user, struct mark *ret)
{
	gnutls_hmac_hd_t hmac;

	if (gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, auth->key, sizeof(auth->key)) < 0)
		return -ENOMEM;
	/* None of them has a NUL: it stands between them. */
	(void)gnutls_hmac(hmac, basic->name, strlen(basic->name) + 1);
	(void)gnutls_hmac(hmac, basic->password, strlen(basic->password) + 1);
	(void)gnutls_hmac(hmac, user ? user->hash : "", user ? strlen(user->hash) : 0);
	gnutls_hmac_deinit(hmac, ret->bytes);
	return 0;
}

static bool is_same(const struct mark *a, const struct mark *b)
{
	return gnutls_memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool is_remembered(const struct auth *auth, const struct mark *mark)
{
	bool found = false;

	for (size_t i = 0; i < auth->nr_remembered; i++)
		found |= is_same(&auth->remembered[i], mark);
	return found;
}

static void remember(struct auth *auth, const struct mark *mark)
{
	auth->remembered[auth->next_remembered] = *mark;
	auth->next_remembered = (auth->next_remembered + 1) % REMEMBERED;
	if (auth->nr_remembered < REMEMBERED)
		auth->nr_remembered++;
}

static struct pending *find_pending(struct auth *auth, const struct mark *mark)
{
	for (size_t i = 0; i < auth->nr_pending; i++)
		if (is_same(&auth->pending[i].mark, mark))
			return &auth->pending[i];
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static enum auth_verdict refuse(const struct peer *peer)
{
	char text[PEER_TEXT_MAX];

	log_debug("too many wrong passwords from %s", peer_text(peer, text));
	return AUTH_TOO_MANY;
}

/* A user that does not exist has a hash as well, so that both take as long. */
static enum auth_verdict submit(struct auth *auth, const struct basic *basic, const struct user *user,
				const struct mark *mark, const struct peer *peer, uint64_t *number)
{
	int r;

	if (!penalty_add(&auth->penalty, peer, now_ns()))
		return refuse(peer);
	r = auth->nr_pending == HASHER_QUEUE ? -EAGAIN :
		hasher_submit(auth->hasher, basic->password, (user ?: &auth->users->items[0])->hash, number);
	if (r < 0) {
		penalty_take_back(&auth->penalty, peer);
		return r == -E2BIG ? AUTH_WRONG : AUTH_BUSY;
	}
	auth->pending[auth->nr_pending++] = (struct pending){
		.number = *number, .mark = *mark, .peer = *peer, .known = user,
	};
	return AUTH_WAIT;
}

static enum auth_verdict check(struct auth *auth, const struct basic *basic, const struct peer *peer, uint64_t *number)
{
	const struct user *user = users_find(auth->users, basic->name);
	struct pending *pending;
	struct mark mark;

	if (make_mark(auth, basic, user, &mark) < 0)
		return AUTH_BUSY;
	if (is_remembered(auth, &mark))
		return AUTH_GOOD;
	pending = find_pending(auth, &mark);
	if (!pending)
		return submit(auth, basic, user, &mark, peer, number);
	pending->stale = false;
	*number = pending->number;
	return AUTH_WAIT;
}

enum auth_verdict auth_check(struct auth *auth, const char *header, const struct peer *peer, uint64_t *number)
{
	enum auth_verdict verdict;
	struct basic basic;

	if (!auth->users)
		return AUTH_GOOD;
	if (!header || basic_parse(header, &basic) < 0)
		return AUTH_WRONG;
	verdict = check(auth, &basic, peer, number);
	basic_wipe(&basic);
	return verdict;
}

static void on_hashed(void *userdata, uint64_t number, bool same)
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
		remember(auth, &pending.mark);
		penalty_take_back(&auth->penalty, &pending.peer);
	} else {
		char text[PEER_TEXT_MAX];

		log_notice("HTTP: a wrong name or password from %s", peer_text(&pending.peer, text));
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
	r = hasher_new(&auth->hasher, loop, on_hashed, auth);
	if (r < 0)
		return r;
	*ret = steal_ptr(auth);
	return 0;
}

struct auth *auth_free(struct auth *auth)
{
	if (!auth)
		return NULL;
	hasher_free(auth->hasher);
	explicit_bzero(auth, sizeof(*auth));
	free(auth);
	return NULL;
}
