/* SPDX-License-Identifier: MIT */

/* As ways.c, in C++: virtual calls, templates, lambdas through the library, exceptions in flight, threads. */

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifdef __clang__
#define KEPT __attribute__((noinline, used))
#else
#define KEPT __attribute__((noipa, used))
#endif

/* Written after each call, so that none is the last thing that a function does. */
static volatile uint64_t sum;

static uint64_t thread_ns()
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define BURN(way)                                                                                                      \
	extern "C" KEPT void burn_##way()                                                                              \
	{                                                                                                              \
		uint64_t end = thread_ns() + 10000000;                                                                 \
		do                                                                                                     \
			for (int i = 0; i < 20000; i++)                                                                \
				sum = sum + (uint64_t)i;                                                               \
		while (thread_ns() < end);                                                                             \
		sum = sum + 1;                                                                                         \
	}

BURN(virtual)
BURN(template)
BURN(lambda)
BURN(function)
BURN(destructor)
BURN(caught)
BURN(thread)

struct Base {
	virtual ~Base() = default;
	virtual void virtual_call() = 0;
};
struct Derived : Base {
	KEPT void virtual_call() override
	{
		burn_virtual();
		sum = sum + 1;
	}
};
KEPT static void virtual_outer(Base &base)
{
	base.virtual_call();
	sum = sum + 1;
}

template <int n> struct Nested {
	KEPT static void template_each()
	{
		Nested<n - 1>::template_each();
		sum = sum + n;
	}
};
template <> struct Nested<0> {
	KEPT static void template_each()
	{
		burn_template();
		sum = sum + 1;
	}
};
KEPT static void template_outer()
{
	Nested<20>::template_each();
	sum = sum + 1;
}

KEPT static bool lambda_less(int a, int b)
{
	burn_lambda();
	sum = sum + 1;
	return a < b;
}
KEPT static void lambda_outer()
{
	std::vector<int> numbers{ 2, 1 };

	std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return lambda_less(a, b); });
	sum = sum + (uint64_t)numbers[0];
}

KEPT static void function_outer(const std::string &text)
{
	std::function<void()> call = [text] {
		burn_function();
		sum = sum + text.size();
	};

	call();
	sum = sum + 1;
}

/* While the exception goes up, this is destroyed. */
struct Guard {
	KEPT ~Guard()
	{
		burn_destructor();
		sum = sum + 1;
	}
};
KEPT static void throw_each(int n)
{
	std::string text(100, 'x');

	if (n == 0)
		throw std::runtime_error(text);
	throw_each(n - 1);
	sum = sum + text.size();
}
KEPT static void destructor_inner()
{
	Guard guard;

	throw_each(20);
	sum = sum + 1;
}
KEPT static void destructor_outer()
{
	try {
		destructor_inner();
	} catch (const std::exception &) {
		burn_caught();
	}
	sum = sum + 1;
}

/* Most of its time is the unwinder's. */
KEPT static void thrown_outer()
{
	uint64_t end = thread_ns() + 10000000;

	do {
		try {
			throw_each(20);
		} catch (const std::exception &error) {
			sum = sum + (uint64_t)error.what()[0];
		}
	} while (thread_ns() < end);
}

struct Job {
	KEPT void thread_entry()
	{
		burn_thread();
		sum = sum + 1;
	}
};
KEPT static void thread_outer()
{
	Job job;
	std::thread thread(&Job::thread_entry, &job);

	thread.join();
}

int main(int argc, char **argv)
{
	uint64_t end = thread_ns() + (uint64_t)((argc > 1 ? atof(argv[1]) : 1) * 1e9);
	std::unique_ptr<Base> base(new Derived);

	do {
		virtual_outer(*base);
		template_outer();
		lambda_outer();
		function_outer("some text that is not kept in place");
		destructor_outer();
		thrown_outer();
		thread_outer();
	} while (thread_ns() < end);
	return 0;
}
