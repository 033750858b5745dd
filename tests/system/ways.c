/* SPDX-License-Identifier: MIT */

/*
 * A program whose stacks are known: main() goes each of these ways by turns, and each ends in a function of its own,
 * burn_WAY(), which uses the CPU for 10 ms. `ways SECONDS`.
 */

#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __clang__
#define KEPT __attribute__((noinline, used))
#else
#define KEPT __attribute__((noipa, used))
#endif

/* Written after each call, so that none is the last thing that a function does. */
static volatile uint64_t sum;

static uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define BURN(way)                                                                                                      \
	KEPT static void burn_##way(void)                                                                              \
	{                                                                                                              \
		uint64_t end = thread_ns() + 10000000;                                                                 \
		do                                                                                                     \
			for (int i = 0; i < 20000; i++)                                                                \
				sum += (uint64_t)i;                                                                    \
		while (thread_ns() < end);                                                                             \
		sum++;                                                                                                 \
	}

BURN(plain)
BURN(far)
BURN(callback)
BURN(grown)
BURN(aligned)
BURN(signal)
BURN(restorer)
BURN(alternate)
BURN(deep)
BURN(deeper)
BURN(wide)
BURN(vast)
BURN(context)
BURN(thread)

/* In a section of its own, which a linker can put into a segment of its own. */
KEPT __attribute__((section(".far"))) static void far_inner(void)
{
	burn_far();
	sum++;
}
KEPT static void far_outer(void)
{
	far_inner();
	sum++;
}

KEPT static void plain_inner(void)
{
	burn_plain();
	sum++;
}
KEPT static void plain_outer(void)
{
	plain_inner();
	sum++;
}

KEPT static int compare(const void *a, const void *b)
{
	burn_callback();
	return *(const int *)a - *(const int *)b;
}

KEPT static void callback_outer(void)
{
	int numbers[] = { 2, 1 };

	qsort(numbers, 2, sizeof(int), compare);
	sum += (uint64_t)numbers[0];
}

/* A frame whose size is known when it runs. */
KEPT static void grown_outer(size_t n)
{
	volatile char *room = alloca(n);

	room[n / 2] = 1;
	burn_grown();
	sum += (uint64_t)room[n / 2];
}

/* … and one that is aligned to more than the stack is. */
KEPT static void aligned_outer(size_t n)
{
	_Alignas(128) volatile char room[256];
	volatile char *more = alloca(n);

	room[n % 256] = 1;
	more[0] = 1;
	burn_aligned();
	sum += (uint64_t)(room[n % 256] + more[0]);
}

KEPT static void handler(int number)
{
	burn_signal();
	sum += (uint64_t)number;
}
KEPT static void signal_outer(void)
{
	raise(SIGUSR1);
	sum++;
}

#ifdef __x86_64__
/* A way back from the handler that has no call-frame information, as musl's and Go's. */
void restorer(void);
__asm__(".text\n"
	"nop\n"
	"restorer:\n"
	"mov $15, %rax\n"
	"syscall\n");

#define RESTORED 0x04000000 /* SA_RESTORER */

KEPT static void restorer_handler(int number)
{
	burn_restorer();
	sum += (uint64_t)number;
}
KEPT static void restorer_outer(void)
{
	/* The kernel's struct sigaction, not libc's. */
	struct {
		void (*handler)(int number);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = { restorer_handler, RESTORED, restorer, 0 };

	syscall(SYS_rt_sigaction, SIGUSR2, &action, NULL, sizeof(action.mask));
	raise(SIGUSR2);
	sum++;
}
#else
#define restorer_outer() burn_restorer()
#endif

/* On a stack of its own: the other one is in no copy. */
KEPT static void alternate_handler(int number)
{
	burn_alternate();
	sum += (uint64_t)number;
}
KEPT static void alternate_outer(void)
{
	static char room[65536];
	const stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };
	struct sigaction action = { .sa_handler = alternate_handler, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	raise(SIGALRM);
	sum++;
}

KEPT static void deep_each(int n)
{
	if (n)
		deep_each(n - 1);
	else
		burn_deep();
	sum++;
}
KEPT static void deep_outer(void)
{
	deep_each(119);
	sum++;
}

/* Deeper than the copy: 80 frames of 600 bytes. */
KEPT static void deeper_each(int n)
{
	volatile char room[600];

	room[n] = 1;
	if (n)
		deeper_each(n - 1);
	else
		burn_deeper();
	sum += (uint64_t)room[n];
}

KEPT static void deeper_outer(void)
{
	deeper_each(79);
	sum++;
}

KEPT static void wide_outer(void)
{
	volatile char room[20000];

	memset((char *)room, 1, sizeof(room));
	burn_wide();
	sum += (uint64_t)room[5];
}

/* A frame beyond any copy. */
KEPT static void vast_outer(void)
{
	volatile char room[100000];

	room[sum % 1000] = 1;
	burn_vast();
	sum += (uint64_t)room[5];
}

static ucontext_t home, away;
KEPT static void context_entry(void)
{
	burn_context();
	swapcontext(&away, &home);
}
KEPT static void context_outer(void)
{
	static char stack[65536];

	getcontext(&away);
	away.uc_stack.ss_sp = stack;
	away.uc_stack.ss_size = sizeof(stack);
	away.uc_link = &home;
	makecontext(&away, context_entry, 0);
	swapcontext(&home, &away);
	sum++;
}

KEPT static void *thread_entry(void *nothing)
{
	burn_thread();
	sum++;
	return nothing;
}
KEPT static void thread_outer(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_entry, NULL) == 0)
		pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	uint64_t end = thread_ns() + (uint64_t)((argc > 1 ? atof(argv[1]) : 1) * 1e9);

	signal(SIGUSR1, handler);
	do {
		plain_outer();
		far_outer();
		callback_outer();
		grown_outer(300 + sum % 200);
		aligned_outer(100 + sum % 200);
		signal_outer();
		restorer_outer();
		alternate_outer();
		deep_outer();
		deeper_outer();
		wide_outer();
		vast_outer();
		context_outer();
		thread_outer();
	} while (thread_ns() < end);
	return 0;
}
