// sanitized: whether a sanitizer watches this program. Under one a program without it cannot load
// our libraries, and long tests see in a part of their cases what there is to see.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#    else
enum { SANITIZED = 0 };
#    endif
#else
enum { SANITIZED = 0 };
#endif
