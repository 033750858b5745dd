// SPDX-License-Identifier: MIT

//! As ways.c, in Rust: trait objects, closures through the library, panics in flight, threads.

use std::panic::{catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Not known to the compiler. (`std::hint::black_box` is newer than Debian 12.)
fn seen<T>(value: T) -> T {
    let copy = unsafe { std::ptr::read_volatile(&value) };
    std::mem::forget(value);
    copy
}

macro_rules! burn {
    ($name:ident, $number:expr) => {
        #[no_mangle]
        #[inline(never)]
        pub extern "C" fn $name() {
            let end = Instant::now() + Duration::from_millis(10);
            // Its own number: functions that are equal are joined.
            let mut sum = $number;
            while Instant::now() < end {
                for i in 0..20000u64 {
                    sum = seen(sum + i);
                }
            }
            seen(sum);
        }
    };
}

burn!(burn_plain, 1);
burn!(burn_object, 2);
burn!(burn_closure, 3);
burn!(burn_dropped, 4);
burn!(burn_thread, 5);

#[inline(never)]
fn plain_inner(n: u64) -> u64 {
    burn_plain();
    seen(n) + 1
}

#[inline(never)]
fn plain_outer(n: u64) -> u64 {
    plain_inner(n) + seen(1)
}

trait Object {
    fn object_call(&self) -> u64;
}

struct Thing(u64);

impl Object for Thing {
    #[inline(never)]
    fn object_call(&self) -> u64 {
        burn_object();
        seen(self.0) + 1
    }
}

#[inline(never)]
fn object_outer(object: &dyn Object) -> u64 {
    object.object_call() + seen(1)
}

#[inline(never)]
fn closure_less(a: &u64, b: &u64) -> std::cmp::Ordering {
    burn_closure();
    seen(a).cmp(seen(b))
}

#[inline(never)]
fn closure_outer() -> u64 {
    let mut numbers = seen(vec![2u64, 1]);
    numbers.sort_by(|a, b| closure_less(a, b));
    seen(numbers[0])
}

struct Guard(u64);

impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        burn_dropped();
        seen(self.0);
    }
}

#[inline(never)]
fn dropped_inner() -> u64 {
    let guard = seen(Guard(1));
    if seen(true) {
        resume_unwind(Box::new(1u64));
    }
    guard.0
}

#[inline(never)]
fn dropped_outer() -> u64 {
    seen(catch_unwind(|| dropped_inner()).is_err()) as u64
}

#[inline(never)]
fn thread_entry() -> u64 {
    burn_thread();
    seen(1)
}

#[inline(never)]
fn thread_outer() -> u64 {
    std::thread::spawn(|| thread_entry() + seen(1)).join().unwrap()
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(1.0, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut sum = 0;

    while Instant::now() < end {
        sum += plain_outer(sum % 7);
        sum += object_outer(&Thing(sum % 7));
        sum += closure_outer();
        sum += dropped_outer();
        sum += thread_outer();
    }
    seen(sum);
}
