// What every cmocka program includes, in the order that cmocka wants.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "skip.h"

// cmocka 2 has it by two other names, and cmocka 1 by this one alone.
#define assert_between(value, low, high)                                                           \
    do {                                                                                           \
        long long between_ = (long long) (value);                                                  \
        if (between_ < (long long) (low) || between_ > (long long) (high)) {                       \
            fail_msg("%s is %lld, not between %lld and %lld", #value, between_, (long long) (low), \
                     (long long) (high));                                                          \
        }                                                                                          \
    } while (0)
