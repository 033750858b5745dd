// SPDX-License-Identifier: MIT

// As ways.c, in Go: interfaces, closures through the library, goroutines whose stacks grow, panics in flight, C that is
// called, and C that calls back.

package main

/*
#include <stdint.h>
#include <time.h>

extern void back_from_c(void);

static volatile uint64_t total;

static __attribute__((noinline)) void burn_c(void)
{
	struct timespec now, start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (int i = 0; i < 20000; i++)
			total += (uint64_t)i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 10000000);
	total++;
}
static __attribute__((noinline)) void c_inner(void)
{
	burn_c();
	total++;
}
static __attribute__((noinline)) void c_callback(void)
{
	back_from_c();
	total++;
}
*/
import "C"

import (
	"os"
	"sort"
	"strconv"
	"time"
)

var sum uint64

//go:noinline
func work(end time.Time) {
	for time.Now().Before(end) {
		for i := uint64(0); i < 20000; i++ {
			sum += i
		}
	}
}

func until() time.Time { return time.Now().Add(10 * time.Millisecond) }

//go:noinline
func burn_plain() { work(until()); sum++ }

//go:noinline
func burn_object() { work(until()); sum++ }

//go:noinline
func burn_closure() { work(until()); sum++ }

//go:noinline
func burn_deferred() { work(until()); sum++ }

//go:noinline
func burn_goroutine() { work(until()); sum++ }

//go:noinline
func burn_deep() { work(until()); sum++ }

//go:noinline
func burn_back() { work(until()); sum++ }

//go:noinline
func plain_inner() { burn_plain(); sum++ }

//go:noinline
func plain_outer() { plain_inner(); sum++ }

type object interface{ object_call() }
type thing struct{ n uint64 }

//go:noinline
func (t *thing) object_call() { burn_object(); sum += t.n }

//go:noinline
func object_outer(o object) { o.object_call(); sum++ }

//go:noinline
func closure_outer() {
	numbers := []uint64{2, 1}
	sort.Slice(numbers, func(i, j int) bool { burn_closure(); sum++; return numbers[i] < numbers[j] })
	sum += numbers[0]
}

//go:noinline
func deferred_inner() { panic("in flight") }

//go:noinline
func deferred_outer() {
	defer func() { recover() }()
	defer func() { burn_deferred(); sum++ }()
	deferred_inner()
	sum++
}

//go:noinline
func goroutine_entry(done chan bool) { burn_goroutine(); sum++; done <- true }

//go:noinline
func goroutine_outer() { done := make(chan bool); go goroutine_entry(done); <-done; sum++ }

//go:noinline
func deep_each(n uint64) {
	if n > 0 {
		deep_each(n - 1)
	} else {
		burn_deep()
	}
	sum++
}

//go:noinline
func deep_outer() { deep_each(99); sum++ }

//go:noinline
func c_outer() { C.c_inner(); sum++ }

//export back_from_c
func back_from_c() { burn_back(); sum++ }

//go:noinline
func back_outer() { C.c_callback(); sum++ }

func main() {
	seconds, _ := strconv.ParseFloat(append(os.Args, "1")[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	for time.Now().Before(end) {
		plain_outer()
		object_outer(&thing{1})
		closure_outer()
		deferred_outer()
		goroutine_outer()
		deep_outer()
		c_outer()
		back_outer()
	}
}
